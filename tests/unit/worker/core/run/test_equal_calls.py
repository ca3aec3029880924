"""A call that succeeded in the step before is answered from its result, and not made again."""

import json
from dataclasses import replace
from typing import Any

import pytest

from answerbus.budget import Usage
from answerbus.call_outcome import CallOk
from answerbus.control import Approval, ApprovalRequested
from answerbus.private.runs import (
    Delegation,
    RunCallRecord,
    RunChildRecord,
    RunRecord,
    RunStepRecord,
)
from answerbus.step import Step, ToolEnded
from services.operators.dead_letters.effects import may_have_run
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.delegation import calls_so_far
from services.worker.core.run.new_run import recovered_run
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.repeats import must_finish
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import NOT_CALLED_AGAIN
from services.worker.core.schema.resolved import AcceptedStep, JsonObject, WantedCall
from tests.unit.worker.builders import ORIGIN, after
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    asked,
    call,
    definition,
    inputs,
    records_of_two_steps,
    result,
    sent,
    taken,
    tool,
)

ANY: JsonObject = {"type": "object"}
DOWN = {"kind": "error", "code": "down", "message": "again"}


def answered(change: Change, value: Any = "done", outcome: dict[str, Any] | None = None) -> Run:
    """The run once all calls that were sent have the same end."""
    run = change.run
    for made in sent(change):
        more = {"outcome": outcome} if outcome else {}
        ended = transitions.on_result(run, result(made, value, **more), inputs(1))
        assert ended is not None
        run = ended.run
    return run


def ends(change: Change) -> list[ToolEnded]:
    return [event for event in change.written if isinstance(event, ToolEnded)]


def test_an_equal_call_is_answered_from_the_result_of_the_step_before() -> None:
    first = taken(Run(definition()), call())
    run = answered(first, {"state": "shipped"})

    second = taken(run, call())

    (before,) = sent(first)
    (end,) = ends(second)
    assert sent(second) == []
    assert end.outcome == CallOk(value={"state": "shipped"}, same_as=before.call_id)
    assert (end.took_ms, second.run.open) == (None, ())
    step = second.written[0]
    assert isinstance(step, Step)
    assert [made.state for made in step.calls] == ["ended"]


def test_one_that_was_answered_so_is_a_success_of_its_step() -> None:
    run = answered(taken(Run(definition()), call()))
    second = taken(run, call())

    third = taken(second.run, call())

    assert sent(third) == []
    assert [end.outcome for end in ends(third)] == [
        CallOk(value="done", same_as=ends(second)[0].call_id)
    ]


def test_arguments_are_equal_in_any_order_and_form_of_their_numbers() -> None:
    run = answered(taken(Run(definition(tool(schema=ANY))), call(a=1, b="x", c={"d": 1, "e": 2})))

    assert sent(taken(run, call(c={"e": 2, "d": 1}, b="x", a=1.0))) == []
    for other in ({"a": 1, "b": "X", "c": {"d": 1, "e": 2}}, {"a": 1, "b": "x"}, {"a": "1"}):
        assert len(sent(taken(run, call(**other)))) == 1, other


@pytest.mark.parametrize("outcome", [DOWN, {**DOWN, "code": "too_large"}])
def test_one_that_failed_is_made_again(outcome: dict[str, Any]) -> None:
    run = answered(taken(Run(definition()), call()), outcome=outcome)

    assert len(sent(taken(run, call()))) == 1


@pytest.mark.parametrize(("repeatable", "ends"), [(False, 3), (True, 5)])
def test_a_run_that_asks_twice_for_what_it_has_ends_with_that(repeatable: bool, ends: int) -> None:
    run, steps = Run(definition(tool(repeatable=repeatable), steps_max=20)), 0
    while not must_finish(run):
        run, steps = answered(taken(run, call())), steps + 1

    assert steps == ends


def test_only_the_step_directly_before_counts() -> None:
    run = answered(taken(Run(definition()), call(order_id="1")))
    run = answered(taken(run, call(order_id="2")))

    assert len(sent(taken(run, call(order_id="1")))) == 1


def test_equal_calls_of_one_step_are_all_made() -> None:
    assert len(sent(taken(Run(definition()), call(), call()))) == 2


def test_a_tool_that_says_that_repeats_are_meant_is_called_again() -> None:
    run = answered(taken(Run(definition(tool(repeatable=True))), call()))

    assert len(sent(taken(run, call()))) == 1


def test_the_other_calls_of_the_step_are_made() -> None:
    run = answered(taken(Run(definition()), call(order_id="1")))

    second = taken(run, call(order_id="1"), call(order_id="2"))

    assert [made.args for made in sent(second)] == [{"order_id": "2"}]
    assert len(second.run.open) == 1


def test_nobody_is_asked_again_for_a_tool_at_most_once_that_was_approved() -> None:
    guarded = definition(tool(delivery="at_most_once", approval="always"))
    first = taken(Run(guarded), call())
    (request,) = (event for event in first.written if isinstance(event, ApprovalRequested))
    approval = Approval(
        call_id=request.call_id,
        args_digest=request.args_digest,
        decision="approved",
        by="ops@acme",
        reason="why",
        workflow_id=request.workflow_id,
        at=after(1),
    )
    approved = transitions.on_approval(first.run, approval, inputs(1))
    assert isinstance(approved, Change)

    second = taken(answered(approved), call())

    assert [event.kind for event in second.written] == [
        "step",
        "run_step",
        "tool_ended",
        "run_call",
    ]
    (end,) = ends(second)
    assert end.call_id != request.call_id
    assert end.outcome == CallOk(value="done", same_as=request.call_id)


def test_it_had_no_effect_that_a_replay_would_double() -> None:
    assert may_have_run(CallOk(value="done"))
    assert not may_have_run(CallOk(value="done", same_as="r-1.call.1.0"))


def test_the_model_reads_the_result_with_a_note() -> None:
    run = answered(taken(Run(definition()), call(order_id="1")), {"state": "shipped"})
    run = answered(taken(run, call(order_id="1"), call(order_id="2")))

    messages = next_step_request(asked(), run, must_finish=False).context.messages
    first, again, other = (
        json.loads(message.content.partition(": ")[2])
        for message in messages
        if message.content.startswith("orders.get: ")
    )
    remarks = [message.content for message in messages if message.trust == "trusted"]

    assert again == first == {"kind": "ok", "value": {"state": "shipped"}}
    assert other == {"kind": "ok", "value": "done"}
    assert [remark.startswith(NOT_CALLED_AGAIN) for remark in remarks] == [
        False,
        False,
        False,
        True,
    ]


PART: JsonObject = {"name": "p", "description": "d", "instructions": "i", "json_schema": ANY}


def delegates(run: Run) -> Change:
    """A step that asks the same child as each other one."""
    wanted = AcceptedStep((), (WantedCall("delegate", PART, None),), (), None)
    given = replace(inputs(), origin=ORIGIN, attempts_left=9)
    return transitions.take_step(run, wanted, len(run.steps) + 1, USAGE, Usage(), ACCOUNT, given)


@pytest.mark.parametrize(("success", "children"), [(True, 1), (False, 2)])
def test_a_child_is_asked_again_only_if_it_could_not_do_its_part(
    success: bool, children: int
) -> None:
    first = delegates(Run(definition(delegate=Delegation())))
    (record,) = (one for one in first.written if isinstance(one, RunCallRecord))
    end = record.model_copy(update={"outcome": CallOk(value={"success": success})})

    second = delegates(first.run.with_call(end, first.run.steps[0].calls[0].call_id))

    asked_again = [one for one in second.written if isinstance(one, RunChildRecord)]
    assert 1 + len(asked_again) == calls_so_far(second.run) == children


def test_it_is_as_it_was_after_a_restart() -> None:
    head, *_ = records_of_two_steps()
    assert isinstance(head, RunRecord)
    first = taken(Run(definition()), call())
    run = first.run
    ended = transitions.on_result(run, result(sent(first)[0]), inputs(1))
    assert ended is not None
    second = taken(ended.run, call())
    written = (*first.written, *ended.written, *second.written)

    found = recovered_run(
        head,
        [one for one in written if isinstance(one, RunStepRecord)],
        [one for one in written if isinstance(one, RunCallRecord)],
    )

    assert not found.open
    assert (found.steps, dict(found.calls)) == (second.run.steps, dict(second.run.calls))
