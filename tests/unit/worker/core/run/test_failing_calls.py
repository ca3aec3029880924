"""A call that fails again and again: the model is told, no two prompts are equal, and it ends."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerbus.call_outcome import NotRun
from answerbus.limits import CALL_FAILURES_MAX
from services.worker.core.run import transitions
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.repeats import must_finish
from services.worker.core.run.run import Run
from tests.unit.worker.builders import prompt
from tests.unit.worker.core.run_builders import (
    asked,
    call,
    definition,
    inputs,
    result,
    sent,
    taken,
)

ERROR = {"kind": "error", "code": "down", "message": "again"}
LONG = definition(steps_max=100, transcript_bytes_max=6_000)


def after_step(run: Run, orders: Sequence[str], outcome: dict[str, Any] | None = None) -> Run:
    """The run after a step that asks for these orders, and gets the outcome for each."""
    change = taken(run, *(call(order_id=order) for order in orders))
    run = change.run
    for made in sent(change):
        ended = transitions.on_result(run, result(made, outcome=outcome or ERROR), inputs())
        assert ended is not None
        run = ended.run
    return run


def reported(run: Run) -> list[str]:
    finish = must_finish(run)
    messages = next_step_request(asked(), run, must_finish=finish).context.messages
    return [message.content for message in messages]


def test_a_model_is_told_how_often_a_call_has_failed_with_these_arguments() -> None:
    run = Run(LONG)
    for orders in (["1"], ["2"], ["1"]):
        run = after_step(run, orders)

    *_, ended, remark = reported(run)

    assert json.loads(ended.partition(": ")[2]) == ERROR | {"failures": 2}
    assert remark.startswith("Calls failed again with the same arguments")
    assert f"After {CALL_FAILURES_MAX} failures" in remark


def test_a_call_that_has_failed_too_often_is_not_made_and_others_are() -> None:
    run = Run(LONG)
    for _ in range(CALL_FAILURES_MAX):
        run = after_step(after_step(run, ["1"]), ["2"], {"kind": "ok", "value": "fine"})

    change = taken(run, call(order_id="1"), call(order_id="3"))

    first, _ = change.run.calls_of(change.run.steps[-1])
    assert first.outcome == NotRun(which="repeats")
    assert [made.args for made in sent(change)] == [{"order_id": "3"}]
    assert not must_finish(change.run)


def test_a_model_that_takes_turns_with_failing_calls_must_finish() -> None:
    """Its steps differ from one to the next, so that none of them repeats the one before."""
    run, steps = Run(LONG), 0
    while not must_finish(run):
        run = after_step(run, [str(steps % 3)])
        steps += 1

    assert steps == 3 * CALL_FAILURES_MAX + 1
    assert reported(run)[-1].startswith("This is the last step")


def test_a_run_that_goes_on_from_another_may_call_what_failed_there() -> None:
    """It is replayed since the tool was mended."""
    run = Run(LONG)
    for _ in range(CALL_FAILURES_MAX):
        run = after_step(run, ["1"])
    again = Run(LONG, steps=run.steps, calls=run.calls, resumed=len(run.steps))

    assert must_finish(run)
    assert not must_finish(again)
    assert len(sent(taken(again, call(order_id="1")))) == 1


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["1", "2", "3"]), min_size=1, max_size=3),
            st.sampled_from([ERROR, {"kind": "ok", "value": "x" * 500}]),
        ),
        min_size=3,
        max_size=40,
    )
)
def test_no_two_prompts_of_a_run_are_equal_and_what_was_told_stays(
    steps: list[tuple[list[str], dict[str, Any]]],
) -> None:
    run, seen = Run(LONG), set[str]()
    for orders, outcome in steps:
        if must_finish(run):
            break
        run = after_step(run, orders, outcome)
        step = next_step_request(asked(), run, must_finish=must_finish(run))
        digest = prompt(step).digest
        assert digest not in seen
        seen.add(digest)
