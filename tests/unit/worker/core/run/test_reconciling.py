"""The fate of a call that must not run twice: its server is asked, and then a person."""

import random
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.cause import Cancelled
from answerbus.control import Approval, ApprovalRequested
from answerbus.limits import TOOL_DELIVERIES_MAX, TOOL_QUESTIONS_DEFAULT
from answerbus.reconcile import ToolReconcile, ToolReconciled
from answerbus.step import ToolEnded
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolProgress
from services.worker.core.run import reconciling, transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run
from tests.unit.worker.builders import after
from tests.unit.worker.core.run_builders import (
    call,
    definition,
    inputs,
    result,
    sent,
    taken,
    tool,
)

TIMEOUT_S = 30.0
HISTORIES, EVENTS = 80, 60
QUIET_S = TIMEOUT_S + reconciling.END_OF_TOOLS.total_seconds()
DID_NOT_HAPPEN = {"kind": "did_not_happen"}
UNKNOWN = {"kind": "unknown"}


def happened(value: JsonValue = "refunded") -> dict[str, Any]:
    return {"kind": "happened", "value": value}


def refund(**card: Any) -> Any:
    return tool("orders.pay", **{"delivery": "at_most_once", "reconcilable": True, **card})


def called(**card: Any) -> Change:
    return taken(Run(definition(refund(**card))), call("orders.pay"))


def passed(change: Change | None, seconds: float) -> Change:
    assert change is not None
    return transitions.on_timeout(change.run, inputs(seconds))


def asked(**card: Any) -> Change:
    """The first question about a call without a result."""
    return passed(passed(called(**card), TIMEOUT_S), TIMEOUT_S + QUIET_S)


def questions(change: Change) -> list[ToolReconcile]:
    return [event for event in change.written if isinstance(event, ToolReconcile)]


def answer(of: ToolReconcile, finding: dict[str, Any], **changes: Any) -> ToolReconciled:
    body = {"call_id": of.call_id, "workflow_id": of.workflow_id, "token": of.reply.token}
    return ToolReconciled.model_validate({**body, "finding": finding, **changes})


def test_notes_of_a_finding_are_those_of_its_call() -> None:
    change = asked()
    (question,) = questions(change)
    said = answer(question, happened({"cents": 5}), notes=["left out"])

    ended = transitions.on_signal(change.run, said, inputs(70.0))

    assert ended is not None
    assert ended.run.notes == ("left out",)


def found(change: Change, finding: dict[str, Any], seconds: float = 70.0) -> Change | None:
    (question,) = questions(change)
    return transitions.on_signal(change.run, answer(question, finding), inputs(seconds))


def ends(change: Change | None) -> list[tuple[str, bool]]:
    written = change.written if change else ()
    return [(e.outcome.kind, e.reconciled) for e in written if isinstance(e, ToolEnded)]


def requested(change: Change) -> list[ApprovalRequested]:
    return [event for event in change.written if isinstance(event, ApprovalRequested)]


def asked_person() -> Change:
    change, seconds = asked(), TIMEOUT_S + QUIET_S
    for _ in range(TOOL_QUESTIONS_DEFAULT):
        seconds += TIMEOUT_S
        change = passed(change, seconds)
    return change


def decision(of: ApprovalRequested, word: str = "approved", **changes: Any) -> Approval:
    kept = {name: getattr(of, name) for name in ("call_id", "args_digest", "workflow_id")}
    body = {**kept, "delivery": of.delivery, "decision": word, "by": "ops", "reason": "looked"}
    return Approval.model_validate({**body, "at": after(500), **changes})


def test_a_call_without_a_result_is_asked_about_once_no_server_can_be_at_work_on_it() -> None:
    change = passed(called(), TIMEOUT_S)

    assert (questions(change), sent(change), ends(change)) == ([], [], [])
    assert passed(change, TIMEOUT_S + QUIET_S - 1).written == ()
    (question,) = questions(passed(change, TIMEOUT_S + QUIET_S))
    (delivered,) = sent(called())
    kept = ("call_id", "toolset", "tool", "args", "args_digest", "workflow_id")
    assert [getattr(question, k) for k in kept] == [getattr(delivered, k) for k in kept]
    assert question.reply.token != delivered.reply.token


def test_what_happened_ends_the_call_with_its_value_and_says_that_it_was_found_out() -> None:
    change = found(asked(), happened({"cents": 5}))

    assert change is not None
    (event,) = (e for e in change.written if isinstance(e, ToolEnded))
    assert event.outcome.model_dump() == {"kind": "ok", "value": {"cents": 5}}
    assert event.reconciled
    assert change.run.open == ()


def test_what_happened_is_bounded_like_a_result() -> None:
    assert ends(found(asked(), happened("x" * 70_000))) == [("too_large", True)]


def test_what_did_not_happen_allows_one_more_delivery() -> None:
    first = asked()
    change = found(first, DID_NOT_HAPPEN)

    assert change is not None
    assert [one.delivery for one in sent(change)] == [2]
    (question,) = questions(first)
    again = transitions.on_signal(change.run, answer(question, DID_NOT_HAPPEN), inputs(71))
    assert again is None


def test_each_delivery_needs_a_finding_of_its_own_and_the_last_one_ends_the_call() -> None:
    change: Change | None = called()
    seconds, deliveries = 0.0, 1
    while change is not None and not ends(change):
        seconds += TIMEOUT_S
        change = passed(change, seconds)
        assert sent(change) == []
        seconds += QUIET_S
        change = found(passed(change, seconds), DID_NOT_HAPPEN, seconds)
        deliveries += len(sent(change)) if change else 0

    assert deliveries == TOOL_DELIVERIES_MAX
    assert change is not None
    (event,) = (e for e in change.written if isinstance(e, ToolEnded))
    assert event.outcome.model_dump() == {"kind": "timed_out", "after_s": 30.0, "ran": "no"}


def test_a_server_that_finds_nothing_out_or_is_silent_is_asked_so_often_and_then_a_person() -> None:
    change, seconds = asked(), TIMEOUT_S + QUIET_S
    numbers = [question.question for question in questions(change)]
    while not requested(change):
        assert found(change, UNKNOWN, seconds) is None
        seconds += TIMEOUT_S
        change = passed(change, seconds)
        numbers += [question.question for question in questions(change)]

    assert numbers == list(range(1, TOOL_QUESTIONS_DEFAULT + 1))
    (request,) = requested(change)
    assert (request.delivery, request.event_id.endswith(".approval.2")) == (2, True)
    assert change.run.stage == "awaits_approval"


def test_a_person_who_approves_has_it_delivered_once_more_and_one_who_refuses_ends_it() -> None:
    change = asked_person()
    (request,) = requested(change)

    approved = transitions.on_approval(change.run, decision(request), inputs(500))
    denied = transitions.on_approval(change.run, decision(request, "denied"), inputs(500))

    assert isinstance(approved, Change)
    assert isinstance(denied, Change)
    assert [(one.delivery, one.approved and one.approved.by) for one in sent(approved)] == [
        (2, "ops")
    ]
    assert ends(denied) == [("timed_out", False)]
    assert transitions.on_approval(approved.run, decision(request), inputs(501)) is None


def test_the_approval_of_the_first_delivery_approves_no_second_one() -> None:
    change = asked_person()
    (request,) = requested(change)

    assert transitions.on_approval(change.run, decision(request, delivery=1), inputs(500)) is None


@pytest.mark.parametrize(
    "changes",
    [{"token": "AAAAAAAAAAAAAAAAAAAAAA=="}, {"call_id": "r-1.call.9.0"}],
)
def test_an_answer_about_another_call_or_to_another_question_changes_nothing(
    changes: dict[str, Any],
) -> None:
    change = asked()
    (question,) = questions(change)

    for finding in (happened(), DID_NOT_HAPPEN):
        said = answer(question, finding, **changes)
        assert transitions.on_signal(change.run, said, inputs(70)) is None


def test_a_call_without_a_question_takes_no_finding() -> None:
    change = called()
    (delivered,) = sent(change)
    body = {"call_id": delivered.call_id, "workflow_id": "w-0", "token": delivered.reply.token}
    said = ToolReconciled.model_validate({**body, "finding": DID_NOT_HAPPEN})

    assert transitions.on_signal(change.run, said, inputs(70)) is None


def test_the_answer_to_an_earlier_question_is_too_late() -> None:
    first = asked()
    second = passed(first, TIMEOUT_S + QUIET_S + TIMEOUT_S)

    for finding in (happened(), DID_NOT_HAPPEN):
        said = answer(questions(first)[0], finding)
        assert transitions.on_signal(second.run, said, inputs(110)) is None


def test_a_late_result_wins_over_what_is_found_afterwards() -> None:
    (delivered,) = sent(called_first := called())
    change = passed(passed(called_first, TIMEOUT_S), TIMEOUT_S + QUIET_S)
    (question,) = questions(change)

    late = transitions.on_signal(change.run, result(delivered), inputs(66))

    assert ends(late) == [("ok", False)]
    assert late is not None
    for finding in (happened(), DID_NOT_HAPPEN):
        assert transitions.on_signal(late.run, answer(question, finding), inputs(67)) is None


def test_a_result_after_a_second_delivery_ends_the_call_and_cancels_that_delivery() -> None:
    (delivered,) = sent(called_first := called())
    change = passed(passed(called_first, TIMEOUT_S), TIMEOUT_S + QUIET_S)
    again = found(change, DID_NOT_HAPPEN)
    assert again is not None

    late = transitions.on_signal(again.run, result(delivered), inputs(71))
    last = transitions.on_signal(again.run, result(sent(again)[0]), inputs(71))

    assert late is not None
    assert last is not None
    assert (ends(late), ends(last)) == ([("ok", False)], [("ok", False)])
    assert any(isinstance(event, ToolCancel) for event in late.written)
    assert not any(isinstance(event, ToolCancel) for event in last.written)


def test_progress_shows_that_a_server_is_at_work_and_nothing_is_to_be_found_out_yet() -> None:
    (delivered,) = sent(called_first := called())
    change = passed(passed(called_first, TIMEOUT_S), TIMEOUT_S + QUIET_S)
    body = {"call_id": delivered.call_id, "workflow_id": "w-0", "token": delivered.reply.token}

    goes_on = transitions.on_signal(change.run, ToolProgress.model_validate(body), inputs(66))

    assert goes_on is not None
    (question,) = questions(change)
    assert transitions.on_signal(goes_on.run, answer(question, DID_NOT_HAPPEN), inputs(67)) is None
    assert questions(passed(goes_on, 66 + TIMEOUT_S * 1.2)) == []


def test_a_tool_without_a_reconciler_and_one_that_may_repeat_are_as_before() -> None:
    assert ends(passed(called(reconcilable=False), TIMEOUT_S)) == [("timed_out", False)]
    repeats = passed(called(delivery="at_least_once"), TIMEOUT_S)
    assert ([one.delivery for one in sent(repeats)], questions(repeats)) == ([2], [])


def test_a_run_that_ends_says_of_a_call_of_unknown_fate_that_it_may_have_run() -> None:
    change = asked_person()

    over = transitions.stopped(change.run, Cancelled(by="me", reason="late"), inputs(3_601))

    (event,) = (e for e in over.written if isinstance(e, ToolEnded))
    assert event.outcome.model_dump() == {"kind": "timed_out", "after_s": 30.0, "ran": "unknown"}


def _any_signal(chance: random.Random, seen: list[Any]) -> Any:
    """About the last that was published, or about something that is long over."""
    of = seen[-1] if chance.random() < 0.5 else chance.choice(seen)
    match of:
        case ToolCallRecord():
            body = {"call_id": of.call_id, "workflow_id": "w-0", "token": of.reply.token}
            is_over = chance.random() < 0.1
            return result(of) if is_over else ToolProgress.model_validate(body)
        case ToolReconcile():
            return answer(of, chance.choice([happened(), DID_NOT_HAPPEN, DID_NOT_HAPPEN, UNKNOWN]))
        case _:
            return decision(of, chance.choice(["approved", "approved", "denied"]))


def _after(run: Run, signal: Any, at: RunInputs) -> Change:
    is_decision = isinstance(signal, Approval)
    found = (transitions.on_approval if is_decision else transitions.on_signal)(run, signal, at)
    return found if isinstance(found, Change) else Change(run)


def _allows(signal: Any, seen: list[Any], delivered: int) -> bool:
    """Whether it is what a further delivery needs: read from what was published alone."""
    match signal:
        case ToolReconciled():
            last = [one.reply.token for one in seen if isinstance(one, ToolReconcile)][-1:]
            return signal.finding.kind == "did_not_happen" and [signal.token] == last
        case Approval():
            return signal.decision == "approved" and signal.delivery == delivered + 1
        case _:
            return False


@pytest.mark.wide
@pytest.mark.parametrize("approval", ["never", "always"])
def test_no_course_of_events_delivers_again_without_a_finding_or_an_approval(approval: Any) -> None:
    """All that was ever published is answered at any time, in any order, also again."""
    repeated = 0
    for seed in range(HISTORIES):
        chance, seconds, seen = random.Random(seed), 0.0, list[Any]()
        change = called(approval=approval)
        delivered, allowed = 0, 0 if approval == "always" else 1
        for _ in range(EVENTS):
            run = change.run
            for event in change.written:
                if isinstance(event, ToolCallRecord):
                    delivered += 1
                    assert event.delivery == delivered <= allowed, seed
                    repeated += delivered > 1
                if isinstance(event, ToolCallRecord | ToolReconcile | ApprovalRequested):
                    seen.append(event)
            seconds += chance.choice([0, 1, 31, 40])
            if chance.random() < 0.5:
                change = transitions.on_timeout(run, inputs(seconds))
                continue
            signal = _any_signal(chance, seen)
            allowed = max(allowed, delivered + _allows(signal, seen, delivered))
            change = _after(run, signal, inputs(seconds))
    assert repeated > HISTORIES // 8
