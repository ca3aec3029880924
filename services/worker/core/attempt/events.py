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
from services.worker.core.attempt import reply as replies
from services.worker.core.attempt.attempt_context import AttemptContext
from services.worker.core.schema.resolved import Accepted


def result(
    attempt: AttemptContext, accepted: Accepted, account: AccountState, now: datetime
) -> Result[JsonValue]:
    """A valid answer."""
    shared = _answered(attempt, account, now, accepted.notes)
    return Result[JsonValue](
        event_id=f"{attempt.request.request_id}.result",
        answer=attempt.plan.schema.add_notes(accepted.answer, shared["notes"]),
        **shared,
    )


def unvalidated(
    attempt: AttemptContext,
    answer: JsonValue,
    failed: failure.Malformed | failure.Invalid,
    account: AccountState,
    now: datetime,
) -> UnvalidatedResult:
    """The last answer without its audit-only fields, of another type than a valid one."""
    return UnvalidatedResult(
        event_id=f"{attempt.request.request_id}.result",
        unvalidated_answer=answer,
        problems=_problems(failed),
        **_answered(attempt, account, now, ()),
    )


def refusal_by_model(
    attempt: AttemptContext, accepted: Accepted, account: AccountState, now: datetime
) -> Refusal:
    """The refusing variant of a contract."""
    declined = accepted.declined
    return Refusal(
        event_id=f"{attempt.request.request_id}.refusal",
        by="model",
        reason=clip(declined.reason, REASON_BYTES_MAX) if declined else "",
        category=declined.category if declined else None,
        answer=accepted.answer,
        **_answered(attempt, account, now, accepted.notes),
    )


def refusal_by_provider(
    attempt: AttemptContext, reply: replies.Refused, account: AccountState, now: datetime
) -> Refusal:
    """The provider's own refusal channel or filter."""
    return Refusal(
        event_id=f"{attempt.request.request_id}.refusal",
        by="provider",
        reason=clip(reply.reason, REASON_BYTES_MAX),
        category=None if reply.category is None else clip(reply.category, 128),
        **_answered(attempt, account, now, ()),
    )


def retry(
    attempt: AttemptContext,
    failed: failure.Failure,
    not_before: datetime,
    account: AccountState,
    now: datetime,
    *,
    counted: bool,
) -> RetryRequest:
    """The entry in the list of what is still being tried."""
    return RetryRequest(
        event_id=f"{attempt.request.request_id}.retry.{attempt.attempt + 1}",
        request_id=attempt.request.request_id,
        workflow_id=attempt.request.workflow_id,
        request=attempt.request,
        body_digest=attempt.body_digest,
        origin=attempt.origin,
        next_attempt=attempt.attempt + 1,
        not_before=not_before,
        deadline=attempt.deadline,
        counted=counted,
        waits=attempt.waits + (0 if counted else 1),
        failure=failed,
        prior=attempt.prior,
        account=account,
        notes=bounded_notes(attempt.notes),
        at=now,
    )


def dead_letter(
    attempt: AttemptContext, cause: Cause, account: AccountState, now: datetime
) -> DeadLetter:
    """The end of a request that cannot be answered."""
    return letter(
        attempt.request,
        cause,
        attempt.origin,
        attempt.prior,
        attempt.notes + attempt.plan.wire.notes,
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


def _answered(
    attempt: AttemptContext, account: AccountState, now: datetime, notes: tuple[str, ...]
) -> _Shared:
    return _Shared(
        request_id=attempt.request.request_id,
        workflow_id=attempt.request.workflow_id,
        schema=attempt.plan.schema.id,
        attempt=attempt.attempt,
        model=attempt.model,
        usage=attempt.usage,
        account=account,
        notes=bounded_notes(attempt.notes + attempt.plan.wire.notes + notes),
        requested_at=attempt.origin.timestamp,
        finished_at=now,
        labels=attempt.request.labels,
        replay=attempt.request.replay,
    )
