"""The decision on a call: one pure function, and one place where trying again meets the budget."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from pydantic import JsonValue

from answerbus import dead_letter, failure
from answerbus.budget import AccountState
from answerbus.limits import REASON_BYTES_MAX, TTL_S_MAX
from answerbus.outcome import RetryRequest
from answerbus.request import Prior
from answerbus.wire import clip
from services.worker.core.attempt import history
from services.worker.core.attempt import reply as replies
from services.worker.core.attempt.check import TooLarge, check_as_text
from services.worker.core.budget import remaining_budget
from services.worker.core.outcome import events
from services.worker.core.outcome.backoff import Backoff
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision, NextStep, Wait
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


def decide(call: Call, inputs: DecisionInputs) -> Decision:
    """Decide how the request of a call goes on or ends."""
    reply = call.reply
    if call.lane_request.cancelled:
        return _dead_letter(
            call, call.lane_request.progress.prior, call.lane_request.cancelled, inputs
        )
    match reply:
        case replies.Answered():
            return _answered(call, reply.content, inputs)
        case replies.Refused():
            again = _after_refusal(call, replies.failure_of(reply), inputs)
            return again or events.refusal_by_provider(call, reply, inputs.account, inputs.now)
        case replies.Truncated() | replies.TimedOut():
            return _try_again(call, replies.failure_of(reply), inputs)
        case replies.Unavailable(ran=True):
            return _try_again(call, replies.failure_of(reply), inputs)
        case replies.Throttled() | replies.Unavailable():
            return _wait(call, replies.failure_of(reply), inputs)
        case replies.Rejected(scope="request"):
            cause = dead_letter.Rejected(status=reply.status, code=reply.code)
            return _dead_letter(call, call.lane_request.progress.prior, cause, inputs)
        case replies.Rejected():
            return _wait(call, failure.Unavailable(status=reply.status), inputs)
        case _:
            assert_never(reply)


def _answered(call: Call, content: str, inputs: DecisionInputs) -> Decision:
    match call.checked:
        case None:
            raise ValueError("an answer is checked before anything is decided")
        case Accepted(declined=None) as accepted:
            return _published(call, accepted, inputs)
        case Accepted(declined=declined) as accepted:
            reason = clip(declined.reason, REASON_BYTES_MAX) if declined else ""
            again = _after_refusal(call, failure.Refused(reason=reason), inputs)
            return again or _published(call, accepted, inputs)
        case AcceptedStep() as step:
            return NextStep(step)
        case failure.Malformed() | failure.Invalid() as failed:
            return _invalid(call, content, failed, inputs)
        case TooLarge():
            return _dead_letter(
                call, call.lane_request.progress.prior, dead_letter.AnswerTooLarge(), inputs
            )
        case _:
            assert_never(call.checked)


def _published(call: Call, accepted: Accepted, inputs: DecisionInputs) -> Decision:
    if accepted.declined:
        return events.refusal_by_model(call, accepted, inputs.account, inputs.now)
    return events.result(call, accepted, inputs.account, inputs.now)


def _invalid(
    call: Call, content: str, failed: failure.Malformed | failure.Invalid, inputs: DecisionInputs
) -> Decision:
    """Another attempt, which sees what was wrong; else what the policy says of the last one."""
    policy = call.request.policy
    prior = _prior(call, failed, history.kept_answer(call.plan, content))
    retries = policy.on_invalid == "retry"
    if retries and (again := _next_attempt(call, prior, failed, inputs)):
        return again
    if policy.at_last == "unvalidated" and call.plan.schema.is_answer:
        found = history.readable(call.plan, content)
        if found is not None and _has_form(found.value, failed):
            return events.unvalidated(call, found.value, failed, inputs.account, inputs.now)
    if policy.at_last == "text":
        as_text = check_as_text(content, call.plan.schema)
        if isinstance(as_text, Accepted):
            return _published(call, as_text, inputs)
    if retries:
        return _used_up(call, prior, inputs)
    return _dead_letter(call, prior, dead_letter.InvalidAnswer(failure=failed), inputs)


def _has_form(answer: JsonValue, failed: failure.Malformed | failure.Invalid) -> bool:
    """Whether an answer is wrong in its parts and not as a whole, as a mere text or number is."""
    match answer:
        case dict():
            return True
        case list() if isinstance(failed, failure.Invalid):
            return all(problem.path for problem in failed.problems)
        case _:
            return False


def _after_refusal(
    call: Call, refused: failure.Failure, inputs: DecisionInputs
) -> RetryRequest | None:
    if call.request.policy.on_refusal != "retry":
        return None
    return _next_attempt(call, _prior(call, refused), refused, inputs)


def _try_again(call: Call, failed: failure.Failure, inputs: DecisionInputs) -> Decision:
    prior = _prior(call, failed)
    return _next_attempt(call, prior, failed, inputs) or _used_up(call, prior, inputs)


def _next_attempt(
    call: Call, prior: tuple[Prior, ...], failed: failure.Failure, inputs: DecisionInputs
) -> RetryRequest | None:
    """Every counted way of trying again goes through here: what ends it is looked at in one place.

    That is a model that gives the same answer again, or the budget.
    """
    if _repeats_itself(call, prior) or _exhausted(call, prior, inputs):
        return None
    delay_s = inputs.backoff.delay_s(len(prior), inputs.jitter)
    return _retry(call, prior, failed, delay_s, inputs, counted=True)


def _used_up(call: Call, prior: tuple[Prior, ...], inputs: DecisionInputs) -> Decision:
    cause: dead_letter.Cause
    if _repeats_itself(call, prior):
        last = prior[-1]
        cause = dead_letter.RepeatsItself(times=last.times, failure=last.failure)
    else:
        cause = dead_letter.BudgetExhausted(which=_exhausted(call, prior, inputs) or "attempts")
    return _dead_letter(call, prior, cause, inputs)


def _repeats_itself(call: Call, prior: tuple[Prior, ...]) -> bool:
    """Whether the newest answer has come as often as its profile allows."""
    return prior[-1].times >= (call.plan.profile.equal_answers_max or math.inf)


def _exhausted(
    call: Call, prior: tuple[Prior, ...], inputs: DecisionInputs
) -> remaining_budget.BudgetUnit | None:
    if inputs.attempts_left is not None and inputs.attempts_left < 1:
        return "attempts"
    return remaining_budget.first_exhausted(call.request, call.plan, prior, inputs.account)


def _wait(call: Call, failed: failure.Failure, inputs: DecisionInputs) -> Decision:
    """Uncounted: bounded by the deadline, and by a maximum, instead of the budget."""
    waits = call.lane_request.progress.waits + 1
    if waits > WAITS_MAX:
        cause = dead_letter.WaitedTooOften(waits=call.lane_request.progress.waits, failure=failed)
        return _dead_letter(call, _prior(call, failed), cause, inputs)
    delay_s = inputs.backoff.delay_s(waits, inputs.jitter)
    if isinstance(failed, failure.Throttled):
        # Never sooner than it says; and `0`, said again and again, must not use up all waits.
        delay_s = max(delay_s, failed.retry_after_s or 0.0)
    if delay_s <= WAIT_IN_MEMORY_S_MAX:
        return Wait(failed, delay_s)
    return _retry(call, call.lane_request.progress.prior, failed, delay_s, inputs, counted=False)


def _retry(
    call: Call,
    prior: tuple[Prior, ...],
    failed: failure.Failure,
    delay_s: float,
    inputs: DecisionInputs,
    *,
    counted: bool,
) -> RetryRequest:
    delay = timedelta(seconds=min(delay_s, TTL_S_MAX))  # a provider may say any number
    not_before = min(inputs.now + delay, call.lane_request.deadline)
    return events.retry(
        call, prior, failed, not_before, inputs.account, inputs.now, counted=counted
    )


def _prior(call: Call, failed: failure.Failure, answer: JsonValue = None) -> tuple[Prior, ...]:
    """The earlier attempts, and this one."""
    attempt, digest = call.spend.attempt, call.answer_digest
    return history.with_failure(call.lane_request.progress.prior, attempt, failed, answer, digest)


def _dead_letter(
    call: Call, prior: tuple[Prior, ...], cause: dead_letter.Cause, inputs: DecisionInputs
) -> dead_letter.DeadLetter:
    return events.dead_letter(call, prior, cause, inputs.account, inputs.now)
