"""What becomes of a reply: one pure decision, and one place where trying again meets the budget."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from pydantic import JsonValue

from answerbus import dead_letter, failure
from answerbus.budget import AccountState
from answerbus.limits import REASON_BYTES_MAX, TTL_S_MAX
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.wire import clip
from services.worker.core.attempt import events, history
from services.worker.core.attempt import reply as replies
from services.worker.core.attempt.attempt_context import AttemptContext
from services.worker.core.attempt.check import TooLarge, check_as_text
from services.worker.core.budget import remaining_budget
from services.worker.core.outcome.backoff import Backoff
from services.worker.core.schema.resolved import Accepted

WAIT_IN_MEMORY_S_MAX = 5.0  # longer waits go to the retries topic, where they survive a restart
WAITS_MAX = 1_000  # uncounted waits of one request

Checked = Accepted | failure.Malformed | failure.Invalid | TooLarge


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again soon, without a word to anyone: the provider did no work."""

    failure: failure.Failure
    delay_s: float


Outcome = Result[JsonValue] | UnvalidatedResult | Refusal | RetryRequest | dead_letter.DeadLetter
Decision = Outcome | Wait


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """What a decision depends on beside the reply: money, time and chance."""

    account: AccountState
    backoff: Backoff
    now: datetime
    jitter: float


def decide(
    attempt: AttemptContext, reply: replies.Reply, checked: Checked | None, inputs: DecisionInputs
) -> Decision:
    """Turn a reply into an outcome; `checked` is what an Answered reply's content came to."""
    match reply:
        case replies.Answered():
            if checked is None:
                raise ValueError("an answer is checked before anything is decided")
            return _answered(attempt, reply, checked, inputs)
        case replies.Refused():
            again = _after_refusal(attempt, replies.failure_of(reply), inputs)
            return again or events.refusal_by_provider(attempt, reply, inputs.account, inputs.now)
        case replies.Truncated() | replies.TimedOut():
            return _try_again(attempt, replies.failure_of(reply), inputs)
        case replies.Unavailable(ran=True):
            return _try_again(attempt, replies.failure_of(reply), inputs)
        case replies.Throttled() | replies.Unavailable():
            return _wait(attempt, replies.failure_of(reply), inputs)
        case replies.Rejected(scope="request"):
            cause = dead_letter.Rejected(status=reply.status, code=reply.code)
            return events.dead_letter(attempt, cause, inputs.account, inputs.now)
        case replies.Rejected():
            return _wait(attempt, failure.Unavailable(status=reply.status), inputs)
        case _:
            assert_never(reply)


def _answered(
    attempt: AttemptContext, reply: replies.Answered, checked: Checked, inputs: DecisionInputs
) -> Decision:
    match checked:
        case Accepted(declined=None):
            return _published(attempt, checked, inputs)
        case Accepted():
            reason = checked.declined.reason if checked.declined else ""
            refused = failure.Refused(reason=clip(reason, REASON_BYTES_MAX))
            return _after_refusal(attempt, refused, inputs) or _published(attempt, checked, inputs)
        case failure.Malformed() | failure.Invalid():
            tried = history.with_failure(
                attempt, checked, history.kept_answer(attempt, reply.content)
            )
            retries = attempt.request.policy.on_invalid == "retry"
            again = _next_attempt(tried, checked, inputs) if retries else None
            return again or _after_last_attempt(attempt, tried, reply.content, checked, inputs)
        case TooLarge():
            return events.dead_letter(
                attempt, dead_letter.AnswerTooLarge(), inputs.account, inputs.now
            )
        case _:
            assert_never(checked)


def _published(attempt: AttemptContext, accepted: Accepted, inputs: DecisionInputs) -> Decision:
    if accepted.declined:
        return events.refusal_by_model(attempt, accepted, inputs.account, inputs.now)
    return events.result(attempt, accepted, inputs.account, inputs.now)


def _after_last_attempt(
    attempt: AttemptContext,
    tried: AttemptContext,
    content: str,
    failed: failure.Malformed | failure.Invalid,
    inputs: DecisionInputs,
) -> Decision:
    policy = attempt.request.policy
    if policy.at_last == "unvalidated":
        found = history.readable(attempt, content)
        if found is not None and _has_form(found.value, failed):
            return events.unvalidated(attempt, found.value, failed, inputs.account, inputs.now)
    if policy.at_last == "text":
        as_text = check_as_text(content, attempt.plan.schema)
        if isinstance(as_text, Accepted):
            return _published(attempt, as_text, inputs)
    if policy.on_invalid == "retry":
        return _used_up(tried, inputs)
    cause = dead_letter.InvalidAnswer(failure=failed)
    return events.dead_letter(tried, cause, inputs.account, inputs.now)


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
    attempt: AttemptContext, refused: failure.Failure, inputs: DecisionInputs
) -> RetryRequest | None:
    if attempt.request.policy.on_refusal != "retry":
        return None
    return _next_attempt(history.with_failure(attempt, refused, None), refused, inputs)


def _try_again(
    attempt: AttemptContext, failed: failure.Failure, inputs: DecisionInputs
) -> Decision:
    tried = history.with_failure(attempt, failed, None)
    return _next_attempt(tried, failed, inputs) or _used_up(tried, inputs)


def _next_attempt(
    tried: AttemptContext, failed: failure.Failure, inputs: DecisionInputs
) -> RetryRequest | None:
    """Every counted way of trying again goes through here: the budget is looked at in one place."""
    if remaining_budget.first_exhausted(tried, inputs.account):
        return None
    delay_s = inputs.backoff.delay_s(len(tried.prior), inputs.jitter)
    return _retry(tried, failed, delay_s, inputs, counted=True)


def _used_up(tried: AttemptContext, inputs: DecisionInputs) -> dead_letter.DeadLetter:
    which = remaining_budget.first_exhausted(tried, inputs.account) or "attempts"
    cause = dead_letter.BudgetExhausted(which=which)
    return events.dead_letter(tried, cause, inputs.account, inputs.now)


def _wait(attempt: AttemptContext, failed: failure.Failure, inputs: DecisionInputs) -> Decision:
    """Uncounted: bounded by the deadline, and by a maximum, instead of the budget."""
    waits = attempt.waits + 1
    if waits > WAITS_MAX:
        tried = history.with_failure(attempt, failed, None)
        cause = dead_letter.InvalidAnswer(failure=failed)
        return events.dead_letter(tried, cause, inputs.account, inputs.now)
    delay_s = inputs.backoff.delay_s(waits, inputs.jitter)
    if isinstance(failed, failure.Throttled):
        # Never sooner than it says; and `0`, said again and again, must not use up all waits.
        delay_s = max(delay_s, failed.retry_after_s or 0.0)
    if delay_s <= WAIT_IN_MEMORY_S_MAX:
        return Wait(failed, delay_s)
    return _retry(attempt, failed, delay_s, inputs, counted=False)


def _retry(
    attempt: AttemptContext,
    failed: failure.Failure,
    delay_s: float,
    inputs: DecisionInputs,
    *,
    counted: bool,
) -> RetryRequest:
    delay = timedelta(seconds=min(delay_s, TTL_S_MAX))  # a provider may say any number
    not_before = min(inputs.now + delay, attempt.deadline)
    return events.retry(attempt, failed, not_before, inputs.account, inputs.now, counted=counted)
