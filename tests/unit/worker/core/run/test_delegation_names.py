"""How a run names its calls, and how many children it has asked, also after a replay."""

import json
from typing import Any

import pytest

from answerbus.failure import Problem
from answerbus.limits import REQUEST_ID_CHARS_MAX
from answerbus.private.runs import Delegation
from answerbus.request import Fact
from answerbus.resumed_run import ResumedRun
from services.worker.core.run.children import child_name
from services.worker.core.run.delegation import (
    args_schema,
    call_names,
    may_delegate,
    read_args,
    used,
)
from services.worker.core.run.new_run import new_run
from services.worker.core.run.run import Run
from tests.unit.worker.builders import request
from tests.unit.worker.core.run_builders import definition

DIGEST = "sha256:" + "0" * 64
OK: dict[str, Any] = {"kind": "ok", "value": 1}
INVALID: dict[str, Any] = {"kind": "invalid_args", "problems": []}


def taken_over(*attempts: int, outcome: dict[str, Any] = OK, children_max: int = 8) -> Run:
    """A run that goes on from steps of these attempts, each with one child."""
    steps = [
        {
            "attempt": attempt,
            "calls": [
                {
                    "call_id": f"r-{n}.call.{attempt}.0",
                    "tool": "delegate",
                    "args": {},
                    "args_digest": DIGEST,
                    "outcome": outcome,
                }
            ],
        }
        for n, attempt in enumerate(attempts)
    ]
    past = {"request_id": "r-0", "steps": steps, "previous": DIGEST, "number": 2}
    resumed = ResumedRun.model_validate_json(json.dumps(past))
    allowed = Delegation(depth_max=1, children_max=children_max, split="pool")
    return new_run(definition(delegate=allowed), request().model_copy(update={"resumed": resumed}))


def names(run: Run) -> list[str]:
    return [name for _, calls in call_names(run) for name, _ in calls]


def test_names_are_those_of_attempts_and_go_on_where_attempts_start_again() -> None:
    assert names(taken_over(1, 3, 4)) == ["call:1.0", "call:3.0", "call:4.0"]
    assert names(taken_over(1, 3, 4, 1, 2)) == [
        *("call:1.0", "call:3.0", "call:4.0"),
        *("call:5.0", "call:6.0"),
    ]
    assert names(taken_over(2, 2, 2)) == ["call:2.0", "call:4.0", "call:6.0"]


def test_a_name_stays_the_same_in_each_later_replay() -> None:
    attempts = (1, 3, 4, 1, 2, 5, 1, 1, 7)
    whole = names(taken_over(*attempts))

    assert len(set(whole)) == len(whole)
    for count in range(1, len(attempts)):
        assert names(taken_over(*attempts[:count])) == whole[:count]


def test_calls_that_asked_no_child_count_for_no_limit_after_a_replay() -> None:
    some = request()

    assert not may_delegate(some, taken_over(1, 2, children_max=2))
    assert may_delegate(some, taken_over(1, 2, outcome=INVALID, children_max=2))


def test_a_name_that_settings_give_twice_stands_in_the_schema_once() -> None:
    """Providers refuse a schema whose `enum` has a value twice."""
    properties = args_schema(Delegation(agents=("a", "b", "a"), profiles=("p", "p")))["properties"]

    assert isinstance(properties, dict)
    assert properties["agent"] == {"type": "string", "enum": ["a", "b"]}
    assert properties["profile"] == {"type": "string", "enum": ["p"]}


@pytest.mark.wide
def test_a_child_whose_names_are_taken_has_another_one_of_at_most_128_characters() -> None:
    for length in (20, 124, 128):
        call_id, taken = "x" * length, set[str]()
        for _ in range(1_200):
            name = child_name(call_id, taken.__contains__)
            assert len(name) <= REQUEST_ID_CHARS_MAX
            assert name not in taken
            taken.add(name)


def test_a_name_in_use_gives_a_child_the_result_of_that_call_alone() -> None:
    run = taken_over(1, 3, outcome={"kind": "ok", "value": {"n": 1}})
    args = read_args({"use": ["call:3.0", "call:2.0"]})

    fact, problem = used(request(), run, args)
    assert fact == Fact(name="call:3.0 delegate", value={"n": 1})
    assert isinstance(problem, Problem)
    assert problem.expected == "one of call:1.0, call:3.0"
