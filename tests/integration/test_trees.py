"""A tree of 64 requests on three levels, on a real Kafka, whose workers are all killed at once."""

import random
from functools import partial
from typing import Any

import pytest

from answerbus.topics import RESULTS, RUN_TOPICS
from tests.chaos.audit.reading import read_history
from tests.chaos.auditor import audit
from tests.integration.bus import Bus, create_topics, request, until

pytestmark = [pytest.mark.kafka, pytest.mark.long]

Json = dict[str, Any]
SEEDS = 20
KILLS = 3
WORKERS = 2  # one of them has the tree, the other one takes it over or dies with it
REQUESTS = 64  # 1 + 3 + 12 + 48
LIMIT_S = 240.0
STATE: Json = {
    "type": "object",
    "properties": {"state": {"enum": ["shipped", "lost"]}},
    "required": ["state"],
    "additionalProperties": False,
}
SHIPPED: Json = {
    "success": True,
    "output": {"state": "shipped"},
    "notes": [],
    "failure_reason": None,
}
PLANNER = """
[agents.planner]
instructions = "You split work."
delegate = {depth_max = 3, children_max = 8, agents = ["planner"]}
"""


def delegates(number: int, **more: Any) -> Json:
    """So many parts; `agent` works on each."""
    args = {"description": "Where it is.", "instructions": "Look.", "json_schema": STATE, **more}
    return acts(
        *(
            {"kind": "tool_call", "name": "delegate", "args": {"name": f"part-{n}", **args}}
            for n in range(number)
        )
    )


def acts(*those: Json) -> Json:
    return {"kind": "answered", "json": {"actions": [*those]}}


def rules(seed: int) -> list[Json]:
    """By how deep a request stands, and whether its prompt tells what its children answered."""
    joined = "These are the results."
    latency = {"median_s": 0.2, "sigma": 0.6, "max_s": 1.5, "seed": seed}
    finish = acts({"kind": "finish", "args": SHIPPED})
    end = acts({"kind": "text_response", "content": "Joined."})
    leaf = {"kind": "answered", "json": SHIPPED}
    below = "*" + ".call.*"
    found: list[tuple[Json, Json]] = [
        ({"request_id": below * 3}, leaf),
        ({"request_id": below, "contains": joined}, finish),
        ({"contains": joined}, end),
        ({"request_id": below * 2}, delegates(4)),
        ({"request_id": below}, delegates(4, agent="planner")),
        ({}, delegates(3, agent="planner")),
    ]
    return [{"when": when, "reply": reply, "latency_s": latency} for when, reply in found]


def has_called(bus: Bus, number: int) -> bool:
    return len(bus.calls()) >= number


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_tree_ends_although_all_of_its_workers_are_killed(bus: Bus, seed: int) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    config, chance = bus.config(rules(seed), profiles=PLANNER), random.Random(seed)
    for _ in range(WORKERS):
        bus.start_worker(config)
    asked = request("r", "w", "Where are they?", agent={"name": "planner"})
    await bus.publish([{**asked, "answer_schema": {"kind": "text"}, "budget": {"attempts": 400}}])
    marks = sorted(chance.sample(range(1, REQUESTS + 8), KILLS))
    for mark in marks:  # so many calls of models have begun
        await until(partial(has_called, bus, mark), f"{mark} calls", LIMIT_S)
        for worker in bus.workers[-WORKERS:]:
            worker.kill()
        for _ in range(WORKERS):
            bus.start_worker(config)
    ended = await bus.terminals(REQUESTS, LIMIT_S)
    assert [worker.terminate() for worker in bus.workers[-WORKERS:]] == [0] * WORKERS

    assert len({one["request_id"] for one in ended}) == len(ended) == REQUESTS
    (root,) = [one for one in await bus.everything(RESULTS) if one["request_id"] == "r"]
    assert (root["answer"], root["run"]["children"]) == ("Joined.", REQUESTS - 1)
    history = read_history(bus.bootstrap, bus.prefix, bus.journal)
    assert audit(history) == [], "one terminal each, and no join is lost"
