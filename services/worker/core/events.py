"""The events a decision can become, each made in one place from the case at hand."""

from datetime import datetime
from typing import TypedDict

from pydantic import JsonValue

from answerbus import failure
from answerbus.budget import AccountState, Usage
from answerbus.dead_letter import Cause, DeadLetter, letter_id
from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX, REASON_BYTES_MAX
from answerbus.outcome import ModelUsed, Origin, Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import Prior, Replay, Request, SchemaId
from answerbus.wire import clip
from services.worker.core import reply as replies
from services.worker.core.asked import Accepted
from services.worker.core.case import Case


def result(
    case: Case, accepted: Accepted, account: AccountState, now: datetime
) -> Result[JsonValue]:
    """A valid answer."""
    shared = _answered(case, account, now, accepted.notes)
    return Result[JsonValue](
        event_id=f"{case.request.request_id}.result",
        answer=case.plan.asked.add_notes(accepted.answer, shared["notes"]),
        **shared,
    )


def unvalidated(
    case: Case,
    answer: JsonValue,
    failed: failure.Malformed | failure.Invalid,
    account: AccountState,
    now: datetime,
) -> UnvalidatedResult:
    """The last answer without its audit-only fields, of another type than a valid one."""
    return UnvalidatedResult(
        event_id=f"{case.request.request_id}.result",
        unvalidated_answer=answer,
        problems=_problems(failed),
        **_answered(case, account, now, ()),
    )


def refusal_by_model(
    case: Case, accepted: Accepted, account: AccountState, now: datetime
) -> Refusal:
    """The refusing variant of a contract."""
    declined = accepted.declined
    return Refusal(
        event_id=f"{case.request.request_id}.refusal",
        by="model",
        reason=clip(declined.reason, REASON_BYTES_MAX) if declined else "",
        category=declined.category if declined else None,
        answer=accepted.answer,
        **_answered(case, account, now, accepted.notes),
    )


def refusal_by_provider(
    case: Case, reply: replies.Refused, account: AccountState, now: datetime
) -> Refusal:
    """The provider's own refusal channel or filter."""
    return Refusal(
        event_id=f"{case.request.request_id}.refusal",
        by="provider",
        reason=clip(reply.reason, REASON_BYTES_MAX),
        category=None if reply.category is None else clip(reply.category, 128),
        **_answered(case, account, now, ()),
    )


def retry(
    case: Case,
    failed: failure.Failure,
    not_before: datetime,
    account: AccountState,
    now: datetime,
    *,
    counted: bool,
) -> RetryRequest:
    """The entry in the list of what is still being tried."""
    return RetryRequest(
        event_id=f"{case.request.request_id}.retry.{case.attempt + 1}",
        request_id=case.request.request_id,
        workflow_id=case.request.workflow_id,
        request=case.request,
        body_digest=case.body_digest,
        origin=case.origin,
        next_attempt=case.attempt + 1,
        not_before=not_before,
        deadline=case.deadline,
        counted=counted,
        waits=case.waits + (0 if counted else 1),
        failure=failed,
        prior=case.prior,
        account=account,
        notes=bounded_notes(case.notes),
        at=now,
    )


def dead_letter(case: Case, cause: Cause, account: AccountState, now: datetime) -> DeadLetter:
    """The end of a request that cannot be answered."""
    return letter(
        case.request,
        cause,
        case.origin,
        case.prior,
        case.notes + case.plan.wire.notes,
        account,
        now,
    )


def letter(
    request: Request,
    cause: Cause,
    origin: Origin,
    prior: tuple[Prior, ...],
    notes: tuple[str, ...],
    account: AccountState,
    now: datetime,
) -> DeadLetter:
    """A dead letter of a request, whether or not it ever had a plan."""
    return DeadLetter(
        dead_letter_id=letter_id(request.request_id, origin.topic),
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        cause=cause,
        request=request,
        raw=None,
        origin=origin,
        prior=prior,
        account=account,
        round=request.replay.round if request.replay else 0,
        notes=bounded_notes(notes),
        at=now,
        labels=request.labels,
    )


def bounded_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """At most 32 notes of 1 KiB, in order, each once."""
    return tuple(clip(note, NOTE_BYTES_MAX) for note in dict.fromkeys(notes))[:NOTES_MAX]


def _problems(failed: failure.Malformed | failure.Invalid) -> tuple[failure.Problem, ...]:
    if isinstance(failed, failure.Invalid):
        return failed.problems
    expected = f"one JSON document; reading stopped at byte {failed.position}"
    return (failure.Problem.of("", "malformed", expected),)


class _Shared(TypedDict):
    request_id: str
    workflow_id: str
    schema: SchemaId
    attempt: int
    model: ModelUsed
    usage: Usage
    account: AccountState
    notes: tuple[str, ...]
    requested_at: datetime
    finished_at: datetime
    labels: dict[str, str]
    replay: Replay | None


def _answered(case: Case, account: AccountState, now: datetime, notes: tuple[str, ...]) -> _Shared:
    return _Shared(
        request_id=case.request.request_id,
        workflow_id=case.request.workflow_id,
        schema=case.plan.asked.id,
        attempt=case.attempt,
        model=case.model,
        usage=case.usage,
        account=account,
        notes=bounded_notes(case.notes + case.plan.wire.notes + notes),
        requested_at=case.origin.timestamp,
        finished_at=now,
        labels=case.request.labels,
        replay=case.request.replay,
    )
