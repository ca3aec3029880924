"""Arguments that a person changes when they approve a call: what runs, and what all are told."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from answerbus.approving import approval_of
from answerbus.call_outcome import CallOk
from answerbus.control import Approval, ApprovalRequested
from answerbus.failure import Problem
from answerbus.limits import EDITED_ARGS_VALUES_MAX, JSON_DEPTH_MAX, TOOL_ARGS_BYTES_MAX
from answerbus.policy import ToolPolicy
from answerbus.reconcile import ToolReconcile
from answerbus.resumed_run import ResumedCall, ResumedRun, ResumedStep
from answerbus.step import Step, ToolEnded
from services.text.digest import canonical_digest
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.new_run import new_run
from services.worker.core.run.reconciling import END_OF_TOOLS
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import transcript
from tests.function_calls import functions_called
from tests.unit.worker.builders import after
from tests.unit.worker.core.run_builders import (
    ORDER,
    asked,
    call,
    definition,
    inputs,
    result,
    sent,
    taken,
    tool,
)

ASKED: dict[str, JsonValue] = {"order_id": "4711"}
CHANGED: dict[str, JsonValue] = {"order_id": "12"}
TIMEOUT_S = 30.0
UNCHANGED = (
    "the arguments as the model wrote them: to check others by this tool's schema takes too long"
)
DENIES_NINES = ToolPolicy(
    deny={"properties": {"args": {"properties": {"order_id": {"pattern": "^9"}}}}},
    ask={"properties": {"run": {"properties": {"steps": {"maximum": 0}}}}},
    otherwise="deny",
)


def waiting(policy: ToolPolicy | None = None, **card: Any) -> Change:
    """A run that waits for the approval of a call."""
    refund = tool("orders.refund", ORDER, approval="always", **card)
    of = definition(refund.model_copy(update={"policy": policy}), tool())
    return taken(Run(of), call("orders.refund", **ASKED))


def requested(change: Change) -> ApprovalRequested:
    (found,) = (event for event in change.written if isinstance(event, ApprovalRequested))
    return found


def approved_with(change: Change, args: dict[str, JsonValue]) -> Approval:
    return approval_of(
        requested(change), "approved", args, by="ops@acme", reason="too much", at=after(1)
    )


def edited(change: Change, args: dict[str, JsonValue] = CHANGED, seconds: float = 1.0) -> Change:
    found = transitions.on_approval(change.run, approved_with(change, args), inputs(seconds))
    assert isinstance(found, Change), found
    return found


def ended(change: Change) -> ToolEnded:
    (found,) = (event for event in change.written if isinstance(event, ToolEnded))
    return found


def test_a_call_runs_with_the_arguments_that_a_person_put_in_the_place_of_its_models() -> None:
    change = waiting()
    approved = edited(change)

    (made,) = sent(approved)
    assert (made.args, made.args_digest) == (CHANGED, canonical_digest(CHANGED))
    assert made.call_id == requested(change).call_id
    assert made.approved is not None
    assert made.approved.by == "ops@acme"

    done = transitions.on_result(approved.run, result(made), inputs(2))
    assert done is not None
    (step,) = (event for event in change.written if isinstance(event, Step))
    assert step.calls[0].args == ASKED, "the step keeps what the model wrote"
    change_of_person = ended(done).edited
    assert change_of_person is not None
    assert (change_of_person.args, change_of_person.by) == (CHANGED, "ops@acme")


def test_the_digits_of_a_large_number_as_a_text_are_other_arguments_of_the_same_digest() -> None:
    either: dict[str, Any] = {"order_id": {"type": ["integer", "string"]}}
    number: dict[str, JsonValue] = {"order_id": 2**53 + 1}
    text: dict[str, JsonValue] = {"order_id": str(2**53 + 1)}
    refund = tool("orders.refund", {"type": "object", "properties": either}, approval="always")
    change = taken(Run(definition(refund)), call("orders.refund", **number))
    (made,) = sent(edited(change, text))

    assert canonical_digest(number) == canonical_digest(text)
    assert made.args == text


def test_arguments_that_do_not_fit_the_schema_are_refused_and_the_call_waits_for_others() -> None:
    change = waiting()
    cases: list[tuple[dict[str, JsonValue], str]] = [
        ({"order_id": "x"}, "/order_id"),
        ({**CHANGED, "more": 1}, ""),
    ]
    for wrong, path in cases:
        found = transitions.on_approval(change.run, approved_with(change, wrong), inputs(1))
        assert isinstance(found, tuple)
        assert found[0].path.startswith(path)

    assert sent(edited(change))[0].args == CHANGED


def test_a_schema_that_takes_too_long_is_counted_and_not_looked_at() -> None:
    large: dict[str, Any] = {"properties": {f"p{n}": {"type": "string"} for n in range(1_000)}}
    refund = tool("orders.refund", {**ORDER, **large, "required": []}, approval="always")
    change = taken(Run(definition(refund)), call("orders.refund", p0="a"))
    approval, found = approved_with(change, {"p0": "b"}), list[object]()

    called = functions_called(
        lambda: found.append(transitions.on_approval(change.run, approval, inputs(1)))
    )

    assert found == [(Problem.of("", "too_costly", UNCHANGED),)]
    assert called < 10_000  # hundreds of thousands where it is compiled


def test_a_call_whose_arguments_cannot_be_changed_is_approved_as_it_is() -> None:
    slow: dict[str, Any] = {"id": {"type": "string", "pattern": "^(a|b|cd){1,600}$"}}
    refund = tool("orders.refund", {"type": "object", "properties": slow}, approval="always")
    change = taken(Run(definition(refund)), call("orders.refund", id="a"))
    asked = requested(change)
    approval = approval_of(asked, "approved", None, by="ops", reason="fine", at=after(1))
    found = transitions.on_approval(change.run, approval, inputs(1))

    refused = transitions.on_approval(change.run, approved_with(change, {"id": "b"}), inputs(1))
    assert refused == (Problem.of("", "too_costly", UNCHANGED),)
    assert isinstance(found, Change)
    assert [made.args for made in sent(found)] == [{"id": "a"}]


def test_changed_arguments_are_judged_and_a_policy_that_asks_has_asked_already() -> None:
    change = waiting(DENIES_NINES)

    denied, allowed = edited(change, {"order_id": "91"}), edited(change)

    assert sent(denied) == []
    assert denied.run.open == ()
    end = ended(denied)
    assert end.outcome.model_dump(include={"kind", "by"}) == {"kind": "denied", "by": "policy"}
    assert end.edited is not None
    assert end.edited.policy is not None
    assert (end.edited.policy.verdict, end.edited.policy.rule) == ("deny", "deny")
    assert [made.args for made in sent(allowed)] == [CHANGED]
    (record,) = allowed.run.calls.values()
    assert record.edited is not None
    assert record.edited.policy is not None
    assert record.edited.policy.rule == "ask", "the step was the first, as when it was taken"


def test_a_policy_on_trial_holds_no_changed_arguments_back() -> None:
    change = waiting(DENIES_NINES.model_copy(update={"mode": "log_only"}))

    assert [made.args for made in sent(edited(change, {"order_id": "91"}))] == [{"order_id": "91"}]


@pytest.mark.parametrize(
    "changes",
    [
        {"asked_digest": canonical_digest({})},
        {"asked_digest": None},
        {"args_digest": canonical_digest(ASKED)},
        {"args": {"order_id": "13"}},
        {"args": None},  # as a worker reads it that does not know of changed arguments
        {"delivery": 2},
    ],
)
def test_an_approval_that_is_not_for_what_was_asked_changes_nothing(changes: Any) -> None:
    change = waiting()
    approval = approved_with(change, CHANGED).model_copy(update=changes)

    assert transitions.on_approval(change.run, approval, inputs(1)) is None


def test_equal_arguments_are_an_ordinary_approval() -> None:
    approval = approved_with(waiting(), {"order_id": "4711"})

    assert (approval.args, approval.asked_digest) == (None, None)
    assert approval.args_digest == canonical_digest(ASKED)


def test_each_delivery_and_each_question_has_the_changed_arguments() -> None:
    first = edited(waiting(timeout_s=TIMEOUT_S), seconds=0)
    (again,) = sent(transitions.on_timeout(first.run, inputs(TIMEOUT_S)))
    assert (again.delivery, again.args) == (2, CHANGED)

    once = edited(
        waiting(timeout_s=TIMEOUT_S, delivery="at_most_once", reconcilable=True), seconds=0
    )
    late = transitions.on_timeout(once.run, inputs(TIMEOUT_S))
    over = TIMEOUT_S * 2 + END_OF_TOOLS.total_seconds()
    question = transitions.on_timeout(late.run, inputs(over))
    (written,) = (event for event in question.written if isinstance(event, ToolReconcile))
    assert (written.args, written.args_digest) == (CHANGED, canonical_digest(CHANGED))


def test_what_was_delivered_keeps_its_arguments() -> None:
    """The call has one id: two different effects would have one idempotency key."""
    change = edited(
        waiting(timeout_s=TIMEOUT_S, delivery="at_most_once", reconcilable=True), seconds=0
    )
    seconds = TIMEOUT_S
    while change.run.stage != "awaits_approval":
        seconds += TIMEOUT_S + END_OF_TOOLS.total_seconds()
        change = transitions.on_timeout(change.run, inputs(seconds))

    assert requested(change).args == CHANGED
    other = approved_with(change, {"order_id": "13"})
    found = transitions.on_approval(change.run, other, inputs(seconds))
    assert isinstance(found, tuple)
    assert [problem.code for problem in found] == ["delivered"]
    assert sent(edited(change, CHANGED, seconds))[0].args == CHANGED


def told_of(run: Run) -> list[str]:
    return [message.content for message in transcript(run).messages]


def test_the_model_is_told_that_a_person_changed_the_arguments() -> None:
    approved = edited(waiting())
    done = transitions.on_result(approved.run, result(sent(approved)[0]), inputs(2))
    assert done is not None

    end = next(text for text in told_of(done.run) if "orders.refund (" in text)
    head, _, body = end.partition(": ")
    assert head == "orders.refund (a person changed its arguments)"
    assert json.loads(body) == {"kind": "ok", "value": "done", "args": CHANGED}
    denied = told_of(edited(waiting(DENIES_NINES), {"order_id": "91"}).run)
    assert any('"args": {"order_id": "91"}' in text for text in denied)


def test_a_call_is_equal_to_the_one_that_ran_and_not_to_the_one_that_was_asked_for() -> None:
    approved = edited(waiting())
    done = transitions.on_result(approved.run, result(sent(approved)[0]), inputs(2))
    assert done is not None

    same = taken(done.run, call("orders.refund", **CHANGED))
    other = taken(done.run, call("orders.refund", **ASKED))

    assert isinstance(ended(same).outcome, CallOk)
    assert requested(other).args == ASKED


def test_a_run_that_goes_on_from_another_knows_what_was_changed() -> None:
    approved = edited(waiting())
    done = transitions.on_result(approved.run, result(sent(approved)[0]), inputs(2))
    assert done is not None
    (step,) = done.run.steps
    end = ended(done)
    before = ResumedCall(
        **step.calls[0].model_dump(include={"call_id", "tool", "args", "args_digest"}),
        outcome=end.outcome,
        edited=end.edited,
    )
    resumed = ResumedRun(
        request_id="r-0",
        steps=(ResumedStep(attempt=1, calls=(before,)),),
        previous=step.link.hash,
        number=2,
    )

    run = new_run(done.run.definition, asked().model_copy(update={"resumed": resumed}))

    assert told_of(run) == told_of(done.run)


def test_the_bounds_of_what_a_person_writes() -> None:
    change = waiting()
    cases: list[dict[str, JsonValue]] = [
        {"order_id": "1" * TOOL_ARGS_BYTES_MAX},
        {"order_id": [0] * EDITED_ARGS_VALUES_MAX},
        json.loads('{"a":' * JSON_DEPTH_MAX + "1" + "}" * JSON_DEPTH_MAX),
    ]
    for args in cases:
        with pytest.raises(ValidationError):
            approved_with(change, args)


def test_what_the_account_has_spent_is_judged_as_it_is_now() -> None:
    spent: JsonValue = {"properties": {"attempts": {"minimum": 5}}}
    rule = ToolPolicy(deny={"properties": {"run": {"properties": {"spent": spent}}}})
    change = waiting(rule.model_copy(update={"otherwise": "allow"}))
    approval = approved_with(change, CHANGED)

    for attempts, count in ((4, 1), (5, 0)):
        at = inputs(1)
        at = replace(at, spent=at.spent.model_copy(update={"attempts": attempts}))
        found = transitions.on_approval(change.run, approval, at)
        assert isinstance(found, Change)
        assert len(sent(found)) == count


@pytest.mark.parametrize("decision", ["approved", "denied"])
@pytest.mark.parametrize("args", [None, CHANGED])
def test_who_decides_once_the_run_is_ending_decides_nothing(decision: Any, args: Any) -> None:
    """It was cancelled, or is late: no call goes out any more."""
    change = waiting()
    late = approval_of(
        requested(change), decision, args, by="ops@acme", reason="at last", at=after(1)
    )

    assert transitions.on_approval(change.run, late, replace(inputs(1), is_ending=True)) is None
