"""The worked examples of docs/agents.md, taken from that page and run with a scripted model."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from answerbus.topics import RESULTS, RUN_TOPICS, STEPS
from tests.integration import refunds_example
from tests.integration.bus import Bus, create_topics
from tests.integration.tool_servers import ToolBus, ending
from tests.integration.worked_examples import TITLES, Reader, example

pytestmark = pytest.mark.kafka

Json = dict[str, Any]

LINES_MAX = 40
BUMP: Json = {
    "kind": "dep_bump",
    "manifest_path": "package.json",
    "package": "lodash",
    "target_version": "4.17.21",
}
JOURNEY: Json = {
    "train": "Friday, 16:05",
    "hotel": "By the fjord",
    "sights": ["Opera", "Holmenkollen"],
    "total_euros": 812.5,
}


def reply(*actions: Json, tokens: int = 100) -> Json:
    usage = {"input_tokens": tokens, "output_tokens": 10}
    return {"kind": "answered", "json": {"actions": [*actions]}, "usage": usage}


def finish(args: Json) -> Json:
    return {"kind": "finish", "args": args}


def search(name: str, schema: Json) -> Json:
    """A part, with a schema as a model writes one."""
    args = {"name": name, "description": f"What {name} there are.", "json_schema": schema}
    args["instructions"] = f"Search for {name} in Oslo."
    return {"kind": "tool_call", "name": "delegate", "args": args}


def listing(**properties: Json) -> Json:
    closed = {"type": "object", "properties": properties, "required": [*properties]}
    return {**closed, "additionalProperties": False}


SEARCHES: dict[str, Json] = {
    "trains": listing(departures={"type": "array", "items": {"type": "string"}}),
    "hotel": listing(name={"type": "string"}, euros={"type": "number", "minimum": 0}),
    "sights": listing(names={"type": "array", "minItems": 2, "items": {"type": "string"}}),
}
FOUND: dict[str, Json] = {
    "trains": {"departures": ["Friday, 16:05", "Friday, 18:10"]},
    "hotel": {"name": "By the fjord", "euros": 420},
    "sights": {"names": ["Opera", "Holmenkollen"]},
}


def specialist(name: str) -> Json:
    answer = {"success": True, "output": FOUND[name], "notes": [], "failure_reason": None}
    fields = {"kind": "answered", "json": answer, "usage": {"input_tokens": 50, "output_tokens": 5}}
    return {"when": {"schema_name": name}, "reply": fields}


READ: Json = {"kind": "tool_call", "name": "files.read_file", "args": {"path": "package.json"}}
REPLY: Json = {"text": "It was sent on Monday.", "promises": []}
CHOICE: Json = {"reason": "It promises nothing.", "element_id": "call:1.1"}
RULES: list[Json] = [
    {"when": {"schema_name": "selection"}, "reply": {"kind": "answered", "json": CHOICE}},
    {"when": {"contains": "order 4711"}, "reply": {"kind": "answered", "json": REPLY}},
    {"when": {"contains": "call:1.2 delegate"}, "reply": reply(finish(JOURNEY))},
    *map(specialist, FOUND),
    {
        "when": {"contains": "Plan a weekend in Oslo"},
        "reply": reply(*(search(name, schema) for name, schema in SEARCHES.items())),
    },
    {
        "when": {"contains": "4.17.20"},
        "reply": reply(finish({**BUMP, "rationale": "It is declared as 4.17.20."})),
    },
    {"when": {"contains": "is vulnerable"}, "reply": reply(READ)},
]


def test_each_example_is_short() -> None:
    for title in TITLES:
        blocks = [code for codes in example(title).values() for code in codes]
        assert sum(len(code.strip().splitlines()) for code in blocks) <= LINES_MAX, title


async def test_the_examples_do_what_the_page_says(bus: Bus, tmp_path: Path) -> None:
    """One worker has the agents of all of them."""
    journey, assistant = example("A journey in three parts"), example("A repository assistant")
    choice = example("A proposer and a selector")
    await create_topics(bus, topics=RUN_TOPICS)
    with ending(ToolBus(bus.bootstrap, bus.prefix, tmp_path)) as tools:
        await tools.create("files", "shop")
        shop = refunds_example.Shop(tools)
        reader = Reader(bus, tools)
        server, asking = assistant["python"]
        parts = (*journey["toml"], *assistant["toml"], *choice["toml"], refunds_example.AGENT)
        reader.serve(assistant[""][0], server)
        await tools.announced("files", "shop")
        rules = [*refunds_example.RULES, *RULES]
        bus.start_worker(bus.config(rules, profiles="".join(parts)))  # it reads cards first
        reported, _ = await asyncio.gather(
            reader.run(journey["python"][0], asking, choice["python"][0]),
            refunds_example.play(bus, shop),
        )
        tree = await reader.tree("journey-1")
        await refunds_example.verify(bus, shop)

    assert "train='Friday, 16:05'" in reported
    assert "total_euros=812.5" in reported
    assert "target_version='4.17.21'" in reported
    assert "It was sent on Monday." in reported
    results = await bus.everything(RESULTS)
    children = [result["answer"] for result in results if result.get("parent")]
    assert children.count(REPLY) == 3
    outputs = [answer["output"] for answer in children if answer != REPLY]
    assert sorted(map(json.dumps, outputs)) == sorted(map(json.dumps, FOUND.values()))
    steps = await bus.everything(STEPS)
    others = [event for event in steps if not event["workflow_id"].startswith("w-")]
    ended = [event["outcome"] for event in others if event["kind"] == "tool_ended"]
    assert [outcome["kind"] for outcome in ended] == ["ok"] * 7
    (chosen,) = (event for event in steps if event.get("composed") == "select")
    assert CHOICE["reason"] in chosen["said"][0]
    assert "travel v1 · 1 step · 5 attempts of 20 · 385 tokens · itself 2 attempts, 220" in tree
    assert tree.count("1 attempt · 55 tokens · answered") == 3
    assert bus.workers[-1].terminate() == 0
