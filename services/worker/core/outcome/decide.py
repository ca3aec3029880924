"""The decision on a call: one pure function, and one place where trying again meets the budget."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from pydantic import JsonValue

from answerbus import dead_letter, failure
from answerbus.budget import AccountState
from answerbus.limits import REASON_BYTES_MAX, TTL_S_MAX
from answerbus.request import Prior
from answerbus.wire import clip
from services.worker.core.attempt import history
from services.worker.core.attempt import reply as replies
from services.worker.core.attempt.check import TooLarge, check_as_text
from services.worker.core.budget import remaining_budget
from services.worker.core.outcome.backoff import Backoff
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import (
    End,
    NextStep,
    Publish,
    PublishUnvalidated,
    Refuse,
    Retry,
    Verdict,
    Wait,
)
from services.worker.core.schema.resolved import Accepted, AcceptedStep

WAIT_IN_MEMORY_S_MAX = 5.0  # longer waits go to the retries topic, where they survive a restart
WAITS_MAX = 1_000  # uncounted waits of one request


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """What a decision depends on beside the call: money, time and chance.

    `account` is as it will be once the call is settled. `attempts_left` are those that the request
    may make then, if that is known: it may be less than its account has.
    """

    account: AccountState
    backoff: Backoff
    now: datetime
    jitter: float
    attempts_left: int | None = None


def decide(call: Call, inputs: DecisionInputs) -> Verdict:
    """Decide how the request of a call goes on or ends; events.event_of says it to others."""
    reply, known = call.reply, call.lane_request.progress.prior
    if call.lane_request.cancelled:
        return End(known, call.lane_request.cancelled)
    match reply:
        case replies.Answered():
            return _of_answer(call, reply.content, inputs)
        case replies.Refused():
            return _unless_again(Refuse(reply), call, replies.failure_of(reply), inputs)
        case replies.Truncated() | replies.TimedOut() | replies.Unavailable(ran=True):
            return _again(call, replies.failure_of(reply), inputs)
        case replies.Throttled() | replies.Unavailable():
            return _wait(call, replies.failure_of(reply), inputs)
        case replies.Rejected(scope="request"):
            return End(known, dead_letter.Rejected(status=reply.status, code=reply.code))
        case replies.Rejected():
            return _wait(call, failure.Unavailable(status=reply.status), inputs)
        case _:
            assert_never(reply)


def _of_answer(call: Call, content: str, inputs: DecisionInputs) -> Verdict:
    match call.checked:
        case None:
            raise ValueError("an answer is checked before anything is decided")
        case Accepted(declined=None) as accepted:
            return Publish(accepted)
        case Accepted(declined=declined) as accepted:
            reason = clip(declined.reason, REASON_BYTES_MAX) if declined else ""
            refused = failure.Refused(reason=reason)
            return _unless_again(Publish(accepted), call, refused, inputs)
        case AcceptedStep() as step:
            return NextStep(step)
        case failure.Malformed() | failure.Invalid() as failed:
            return _invalid(call, content, failed, inputs)
        case TooLarge():
            return End(call.lane_request.progress.prior, dead_letter.AnswerTooLarge())
        case _:
            assert_never(call.checked)


def _invalid(
    call: Call, content: str, failed: failure.Malformed | failure.Invalid, inputs: DecisionInputs
) -> Verdict:
    """Another attempt, which sees what was wrong; else what the policy says of the last one."""
    policy, kept = call.request.policy, history.kept_answer(call.plan, content)
    again = _again(call, failed, inputs, kept) if policy.on_invalid == "retry" else None
    if isinstance(again, Retry):
        return again
    if policy.at_last == "unvalidated" and call.plan.schema.is_answer:
        found = history.readable(call.plan, content)
        if found is not None and _has_form(found.value, failed):
            return PublishUnvalidated(found.value, failed)
    if policy.at_last == "text":
        as_text = check_as_text(content, call.plan.schema)
        if isinstance(as_text, Accepted):
            return Publish(as_text)
    return again or End(_prior(call, failed, kept), dead_letter.InvalidAnswer(failure=failed))


def _has_form(answer: JsonValue, failed: failure.Malformed | failure.Invalid) -> bool:
    """Whether an answer is wrong in its parts and not as a whole, as a mere text or number is."""
    match answer:
        case dict():
            return True
        case list() if isinstance(failed, failure.Invalid):
            return all(problem.path for problem in failed.problems)
        case _:
            return False


def _unless_again(
    declined: Publish | Refuse, call: Call, refused: failure.Failure, inputs: DecisionInputs
) -> Verdict:
    """A refusal, unless the policy wants another attempt and there may be one."""
    if call.request.policy.on_refusal != "retry":
        return declined
    again = _again(call, refused, inputs)
    return again if isinstance(again, Retry) else declined


def _again(
    call: Call, failed: failure.Failure, inputs: DecisionInputs, answer: JsonValue = None
) -> Retry | End:
    """Every counted way of trying again goes through here: what ends it is looked at in one place.

    That is a model that gives the same answer again, or the budget.
    """
    prior, plan = _prior(call, failed, answer), call.plan
    last = prior[-1]
    if last.times >= (plan.profile.equal_answers_max or math.inf):
        return End(prior, dead_letter.RepeatsItself(times=last.times, failure=last.failure))
    which: remaining_budget.BudgetUnit | None = "attempts"
    if inputs.attempts_left is None or inputs.attempts_left >= 1:
        which = remaining_budget.first_exhausted(call.request, plan, prior, inputs.account)
    if which is not None:
        return End(prior, dead_letter.BudgetExhausted(which=which))
    delay_s = inputs.backoff.delay_s(len(prior), inputs.jitter)
    return Retry(prior, failed, _not_before(call, delay_s, inputs), counted=True)


def _wait(call: Call, failed: failure.Failure, inputs: DecisionInputs) -> Verdict:
    """Uncounted: bounded by the deadline, and by a maximum, instead of the budget."""
    known = call.lane_request.progress
    waits = known.waits + 1
    if waits > WAITS_MAX:
        cause = dead_letter.WaitedTooOften(waits=known.waits, failure=failed)
        return End(_prior(call, failed), cause)
    delay_s = inputs.backoff.delay_s(waits, inputs.jitter)
    if isinstance(failed, failure.Throttled):
        # Never sooner than it says; and `0`, said again and again, must not use up all waits.
        delay_s = max(delay_s, failed.retry_after_s or 0.0)
    if delay_s <= WAIT_IN_MEMORY_S_MAX:
        return Wait(failed, delay_s)
    return Retry(known.prior, failed, _not_before(call, delay_s, inputs), counted=False)


def _not_before(call: Call, delay_s: float, inputs: DecisionInputs) -> datetime:
    delay = timedelta(seconds=min(delay_s, TTL_S_MAX))  # a provider may say any number
    return min(inputs.now + delay, call.lane_request.deadline)


def _prior(call: Call, failed: failure.Failure, answer: JsonValue = None) -> tuple[Prior, ...]:
    """The earlier attempts, and this one."""
    attempt, digest = call.spend.attempt, call.answer_digest
    return history.with_failure(call.lane_request.progress.prior, attempt, failed, answer, digest)
