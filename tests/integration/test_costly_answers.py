"""A costly schema and answer among good requests on a real Kafka: it ends typed, and holds none."""

from typing import Any

import pytest

from answerbus.topics import DEAD_LETTERS
from tests.integration.bus import Bus, create_topics, request

pytestmark = pytest.mark.kafka

GOOD = 36
COSTLY = {"allOf": [{"required": [f"a{n}"]} for n in range(2000)]}
RULES: list[dict[str, Any]] = [
    {
        "when": {"contains": "many members"},
        "reply": {"kind": "answered", "json": {f"m{n}": 0 for n in range(5000)}},
    },
    {"reply": {"kind": "answered", "json": {"a": "x"}}},
]


def asked(name: str, what: str, schema: dict[str, Any]) -> dict[str, Any]:
    found = request(name, f"w-{name}", what)
    found["answer_schema"] = {"kind": "inline", "name": "t", "wrapped": False}
    found["answer_schema"]["json_schema"] = schema
    return found | {"budget": {"attempts": 1}}


async def test_a_costly_answer_ends_typed_and_the_worker_answers_on(bus: Bus) -> None:
    await create_topics(bus)
    worker = bus.start_worker(bus.config(RULES))
    good = {"type": "object", "properties": {"a": {"enum": ["x"]}}}
    await bus.publish(
        [
            asked("costly", "many members", COSTLY),
            *(asked(f"r-{n}", "good", good) for n in range(GOOD)),
        ]
    )
    terminals = await bus.terminals(GOOD + 1)

    assert worker.health["ready"]
    assert worker.terminate() == 0
    (dead_letter,) = await bus.everything(DEAD_LETTERS)
    assert dead_letter["request"]["request_id"] == "costly"
    assert "crash" not in dead_letter["cause"]["kind"]
    kinds = [one["kind"] for one in terminals]
    assert kinds.count("result") == GOOD
