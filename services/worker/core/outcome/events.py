"""Makes the event of a verdict, from the call at hand; each kind of event in one place."""

from datetime import datetime, timedelta
from typing import TypedDict, assert_never

from pydantic import JsonValue

from answerbus import failure
from answerbus.agent import ParentId, RunSummary
from answerbus.budget import AccountState, Usage
from answerbus.dead_letter import Cause, DeadLetter, dead_letter_id
from answerbus.limits import REASON_BYTES_MAX, TTL_S_MAX
from answerbus.outcome import ModelUsed, Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import Prior, Replay, SchemaId
from answerbus.wire import clip
from services.worker.core.attempt import reply as replies
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import (
    End,
    Outcome,
    Publish,
    Published,
    PublishRefusal,
    PublishUnvalidated,
    Retry,
)
from services.worker.core.request.lane_request import LaneRequest, bounded_notes
from services.worker.core.schema.resolved import Accepted

_RESULT = Result[JsonValue]  # to look it up takes a fifth as long as to make one


def event_of(verdict: Published, call: Call, account: AccountState, now: datetime) -> Outcome:
    """The event of a verdict; `account` is its state once the call is settled."""
    match verdict:
        case Publish(accepted=accepted) if accepted.declined:
            return _refusal_by_model(call, accepted, account, now)
        case Publish(accepted=accepted):
            return _result(call, accepted, account, now)
        case PublishUnvalidated():
            return _unvalidated(call, verdict, account, now)
        case PublishRefusal(reply=reply):
            return _refusal_by_provider(call, reply, account, now)
        case Retry():
            return _retry(call, verdict, account, now)
        case End():
            return _end(call, verdict, account, now)
        case _:
            assert_never(verdict)


def _result(
    call: Call, accepted: Accepted, account: AccountState, now: datetime
) -> Result[JsonValue]:
    shared = _answered(call, account, now, accepted.notes)
    if accepted.chosen and (run := shared["run"]):  # the selection is a step, and the last one
        shared["run"] = run.model_copy(update={"steps": run.steps + 1})
    return _RESULT(
        event_id=f"{call.request.request_id}.result",
        answer=call.plan.schema.add_notes(accepted.answer, shared["notes"]),
        **shared,
    )


def _unvalidated(
    call: Call, verdict: PublishUnvalidated, account: AccountState, now: datetime
) -> UnvalidatedResult:
    """The last answer without its audit-only fields, of another type than a valid one."""
    return UnvalidatedResult(
        event_id=f"{call.request.request_id}.result",
        unvalidated_answer=verdict.answer,
        problems=_problems(verdict.failure),
        **_answered(call, account, now, ()),
    )


def _refusal_by_model(
    call: Call, accepted: Accepted, account: AccountState, now: datetime
) -> Refusal:
    """The refusing variant of a contract."""
    declined = accepted.declined
    return Refusal(
        event_id=f"{call.request.request_id}.refusal",
        by="model",
        reason=clip(declined.reason, REASON_BYTES_MAX) if declined else "",
        category=declined.category if declined else None,
        answer=accepted.answer,
        **_answered(call, account, now, accepted.notes),
    )


def _refusal_by_provider(
    call: Call, reply: replies.Refused, account: AccountState, now: datetime
) -> Refusal:
    """The provider's own refusal channel or filter."""
    return Refusal(
        event_id=f"{call.request.request_id}.refusal",
        by="provider",
        reason=clip(reply.reason, REASON_BYTES_MAX),
        category=None if reply.category is None else clip(reply.category, 128),
        **_answered(call, account, now, ()),
    )


def _retry(call: Call, verdict: Retry, account: AccountState, now: datetime) -> RetryRequest:
    """The entry in the list of what is still being tried."""
    deadline = call.lane_request.deadline
    delay = timedelta(seconds=min(verdict.delay_s, TTL_S_MAX))  # a provider may say any number
    return RetryRequest(
        event_id=f"{call.request.request_id}.retry.{call.spend.attempt + 1}",
        request_id=call.request.request_id,
        workflow_id=call.request.workflow_id,
        request=call.request,
        body_digest=call.lane_request.body_digest,
        origin=call.lane_request.origin,
        next_attempt=call.spend.attempt + 1,
        not_before=min(now + delay, deadline),
        deadline=deadline,
        counted=verdict.counted,
        waits=call.lane_request.progress.waits + (0 if verdict.counted else 1),
        failure=verdict.failure,
        prior=verdict.prior,
        account=account,
        used=_used(call),
        failed=call.failed_after(verdict.failure)
        if verdict.counted
        else call.lane_request.progress.failed,
        notes=bounded_notes(call.notes),
        at=now,
    )


def _used(call: Call) -> Usage | None:
    """What goes to a run: its own attempts, or, of a child, to its parent."""
    goes_to_run = call.lane_request.run or call.request.parent
    return call.lane_request.progress.used.plus(call.usage) if goes_to_run else None


def _end(call: Call, verdict: End, account: AccountState, now: datetime) -> DeadLetter:
    """The end of a request that a call leaves without an answer."""
    notes, usage = call.notes + call.plan.notes, call.usage
    return _dead_letter(call.lane_request, verdict.prior, notes, usage, verdict.cause, account, now)


def dead_letter_without_call(
    lane_request: LaneRequest, cause: Cause, account: AccountState, now: datetime
) -> DeadLetter:
    """The end of a request that is not called again, whether or not it ever had a plan."""
    return _dead_letter(
        lane_request,
        lane_request.progress.prior,
        lane_request.all_notes,
        Usage(),
        cause,
        account,
        now,
    )


def _dead_letter(
    lane_request: LaneRequest,
    prior: tuple[Prior, ...],
    notes: tuple[str, ...],
    usage: Usage,
    cause: Cause,
    account: AccountState,
    now: datetime,
) -> DeadLetter:
    request = lane_request.request
    return DeadLetter(
        dead_letter_id=dead_letter_id(request.request_id, lane_request.origin.topic),
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        cause=cause,
        request=request,
        raw=None,
        origin=lane_request.origin,
        prior=prior,
        account=account,
        round=lane_request.round,
        notes=bounded_notes(notes),
        at=now,
        labels=request.labels,
        body_digest=lane_request.body_digest,
        run=_summary(lane_request, usage),
        parent=request.parent_id,
    )


def _summary(lane_request: LaneRequest, usage: Usage) -> RunSummary | None:
    return (
        lane_request.run.summary(lane_request.progress.used.plus(usage))
        if lane_request.run
        else None
    )


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
    body_digest: str
    run: RunSummary | None
    parent: ParentId | None


def _answered(call: Call, account: AccountState, now: datetime, notes: tuple[str, ...]) -> _Shared:
    return _Shared(
        request_id=call.request.request_id,
        workflow_id=call.request.workflow_id,
        schema=call.plan.schema.id,
        attempt=call.spend.attempt,
        model=call.model,
        usage=call.usage,
        account=account,
        notes=bounded_notes(call.notes + call.plan.notes + notes),
        requested_at=call.lane_request.origin.timestamp,
        finished_at=now,
        labels=call.request.labels,
        replay=call.request.replay,
        body_digest=call.lane_request.body_digest,
        run=_summary(call.lane_request, call.usage),
        parent=call.request.parent_id,
    )
