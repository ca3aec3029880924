"""A run that delegates on a real Kafka: children by schemas of its model, and a kill between."""

from typing import Any

import jsonschema
import pytest

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, RESULTS, RUN_TOPICS, RUNS, STEPS
from tests.integration.bus import Bus, create_topics, request, until

pytestmark = pytest.mark.kafka

Json = dict[str, Any]

STATE: Json = {
    "type": "object",
    "properties": {"state": {"enum": ["shipped", "lost"]}},
    "required": ["state"],
    "additionalProperties": False,
}
PLANNER = """
[agents.planner]
instructions = "You split work."
delegate = {depth_max = 1, children_max = 8}
"""


def delegate(name: str, schema: Json) -> Json:
    args = {
        "name": name,
        "description": "What the carrier says.",
        "instructions": f"Ask the carrier of {name}.",
        "json_schema": schema,
        "use": ["fact:manifest"],
    }
    return {"kind": "tool_call", "name": "delegate", "args": args}


def acts(*those: Json) -> Json:
    return {"kind": "answered", "json": {"actions": [*those]}}


SHIPPED: Json = {
    "success": True,
    "output": {"state": "shipped"},
    "notes": [],
    "failure_reason": None,
}
ASKED = (
    delegate("north", STATE),
    delegate("south", STATE),
    delegate("hostile", {"$ref": "https://example.com/schema"}),
)
RULES: list[Json] = [
    {
        "when": {"contains": "call:1.0 delegate"},
        "reply": acts({"kind": "text_response", "content": "Joined."}),
    },
    {
        "when": {"contains": "Ask the carrier of"},
        "reply": {"kind": "answered", "json": SHIPPED},
        "latency_s": 1.5,
    },
    {"reply": acts(*ASKED)},
]


async def test_children_are_joined_though_their_worker_is_killed(bus: Bus) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    config = bus.config(RULES, profiles=PLANNER)
    first = bus.start_worker(config)
    facts = [{"name": "manifest", "value": {"parcel": "P-1"}}]
    asked = request("r-1", "w-1", "Where are they?", agent={"name": "planner"})
    asked |= {"answer_schema": {"kind": "text"}, "budget": {"attempts": 9}}
    asked["context"] = {"instructions": "Where are they?", "facts": facts}
    await bus.publish([asked, request("next", "w-1", "After it.", answer_schema={"kind": "text"})])
    await until(lambda: len(bus.calls()) >= 3, "children are called")
    first.kill()
    bus.start_worker(config)
    await bus.terminals(4)

    assert bus.workers[-1].terminate() == 0
    assert await bus.everything(DEAD_LETTERS) == []
    results = {event["request_id"]: event for event in await bus.everything(RESULTS)}
    children = [results[f"r-1.call.1.{place}"] for place in (0, 1)]
    for child in children:
        jsonschema.validate(child["answer"]["output"], STATE)
        assert child["parent"]["request_id"] == "r-1"
        assert child["finished_at"] <= results["r-1"]["finished_at"]
    assert results["r-1"]["answer"] == "Joined."
    assert results["r-1"]["run"]["children"] == 2
    assert results["r-1"]["finished_at"] <= results["next"]["finished_at"]
    ended = [e["outcome"] for e in await bus.everything(STEPS) if e["kind"] == "tool_ended"]
    assert sorted(outcome["kind"] for outcome in ended) == ["invalid_args", "ok", "ok"]
    attempts = await bus.everything(ATTEMPTS)
    accounts = [e for e in await bus.everything(LEDGER) if e["kind"] == "account"]
    counted = sum(attempt["counted"] for attempt in attempts)
    assert accounts[-1]["spent"]["attempts"] == counted <= 9
    open_records = {record.key: record.value for record in await bus.records(RUNS)}
    assert set(open_records.values()) == {None}
