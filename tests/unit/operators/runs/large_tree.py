"""The records of a large tree: a run that asked children, each a run with tools of its own."""

from collections.abc import Iterator
from typing import Any

from answerbus.event import Event
from tests.unit.operators.runs.events import (
    AGENT,
    asked,
    attempt,
    call,
    ended,
    parent,
    result,
    step,
)

CHILDREN = 64  # as many as a run may ask
STEPS_OF_ROOT = 4
STEPS_OF_CHILD = 2
CALLS_OF_STEP = 2
NODES = 1 + STEPS_OF_ROOT + CHILDREN * (2 + STEPS_OF_CHILD * (1 + CALLS_OF_STEP))
"""Runs, steps and calls."""

ATTEMPTS = STEPS_OF_ROOT + 1 + CHILDREN * (STEPS_OF_CHILD + 1)
VALUE = {"kind": "ok", "value": "what the tool said " * 50}  # 1 KB


def large_tree(name: str = "r-1") -> Iterator[Event]:
    """All has ended, and each attempt took the same."""
    yield asked(name, agent={"name": "planner"})
    each = CHILDREN // STEPS_OF_ROOT
    for n in range(1, STEPS_OF_ROOT + 1):
        calls = [call(name, n, place, tool="delegate") for place in range(each)]
        yield attempt(name, n)
        yield step(name, n, *calls)
        for one in calls:
            yield from _child(one["call_id"])
            yield ended(one["call_id"], outcome=VALUE)
    yield attempt(name, STEPS_OF_ROOT + 1, outcome="result")
    yield result(name, attempt=STEPS_OF_ROOT + 1, run=_came_to(STEPS_OF_ROOT))


def _child(call_id: str) -> Iterator[Event]:
    for n in range(1, STEPS_OF_CHILD + 1):
        calls = [call(call_id, n, place) for place in range(CALLS_OF_STEP)]
        yield attempt(call_id, n)
        yield step(call_id, n, *calls)
        for one in calls:
            yield ended(one["call_id"], request_id=call_id, outcome=VALUE)
    yield attempt(call_id, STEPS_OF_CHILD + 1, outcome="result")
    about = {"parent": parent(call_id), "run": _came_to(STEPS_OF_CHILD)}
    yield result(call_id, attempt=STEPS_OF_CHILD + 1, **about)


def _came_to(steps: int) -> dict[str, Any]:
    return {"agent": AGENT, "steps": steps, "tool_calls": steps}
