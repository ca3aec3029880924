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
from services.worker.core import events, history, means
from services.worker.core import reply as replies
from services.worker.core.asked import Accepted
from services.worker.core.backoff import Backoff
from services.worker.core.case import Case
from services.worker.core.check import TooLarge, check_as_text

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
class Circumstances:
    """What a decision depends on beside the reply: money, time and chance."""

    account: AccountState
    backoff: Backoff
    now: datetime
    jitter: float


def decide(
    case: Case, reply: replies.Reply, checked: Checked | None, around: Circumstances
) -> Decision:
    """Turn a reply into an outcome; `checked` is what an Answered reply's content came to."""
    match reply:
        case replies.Answered():
            if checked is None:
                raise ValueError("an answer is checked before anything is decided")
            return _answered(case, reply, checked, around)
        case replies.Refused():
            again = _after_refusal(case, replies.failure_of(reply), around)
            return again or events.refusal_by_provider(case, reply, around.account, around.now)
        case replies.Truncated() | replies.TimedOut():
            return _again(case, replies.failure_of(reply), around)
        case replies.Unavailable(ran=True):
            return _again(case, replies.failure_of(reply), around)
        case replies.Throttled() | replies.Unavailable():
            return _wait(case, replies.failure_of(reply), around)
        case replies.Rejected(scope="request"):
            cause = dead_letter.Rejected(status=reply.status, code=reply.code)
            return events.dead_letter(case, cause, around.account, around.now)
        case replies.Rejected():
            return _wait(case, failure.Unavailable(status=reply.status), around)
        case _:
            assert_never(reply)


def _answered(
    case: Case, reply: replies.Answered, checked: Checked, around: Circumstances
) -> Decision:
    match checked:
        case Accepted(declined=None):
            return _published(case, checked, around)
        case Accepted():
            reason = checked.declined.reason if checked.declined else ""
            refused = failure.Refused(reason=clip(reason, REASON_BYTES_MAX))
            return _after_refusal(case, refused, around) or _published(case, checked, around)
        case failure.Malformed() | failure.Invalid():
            tried = history.with_failure(case, checked, history.kept_answer(case, reply.content))
            retries = case.request.policy.on_invalid == "retry"
            again = _another(tried, checked, around) if retries else None
            return again or _at_last(case, tried, reply.content, checked, around)
        case TooLarge():
            return events.dead_letter(
                case, dead_letter.AnswerTooLarge(), around.account, around.now
            )
        case _:
            assert_never(checked)


def _published(case: Case, accepted: Accepted, around: Circumstances) -> Decision:
    if accepted.declined:
        return events.refusal_by_model(case, accepted, around.account, around.now)
    return events.result(case, accepted, around.account, around.now)


def _at_last(
    case: Case,
    tried: Case,
    content: str,
    failed: failure.Malformed | failure.Invalid,
    around: Circumstances,
) -> Decision:
    policy = case.request.policy
    if policy.at_last == "unvalidated":
        found = history.readable(case, content)
        if found is not None and _has_form(found.value, failed):
            return events.unvalidated(case, found.value, failed, around.account, around.now)
    if policy.at_last == "text":
        as_text = check_as_text(content, case.plan.asked)
        if isinstance(as_text, Accepted):
            return _published(case, as_text, around)
    if policy.on_invalid == "retry":
        return _used_up(tried, around)
    cause = dead_letter.InvalidAnswer(failure=failed)
    return events.dead_letter(tried, cause, around.account, around.now)


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
    case: Case, refused: failure.Failure, around: Circumstances
) -> RetryRequest | None:
    if case.request.policy.on_refusal != "retry":
        return None
    return _another(history.with_failure(case, refused, None), refused, around)


def _again(case: Case, failed: failure.Failure, around: Circumstances) -> Decision:
    tried = history.with_failure(case, failed, None)
    return _another(tried, failed, around) or _used_up(tried, around)


def _another(tried: Case, failed: failure.Failure, around: Circumstances) -> RetryRequest | None:
    """Every counted way of trying again goes through here: the budget is looked at in one place."""
    if means.lacking(tried, around.account):
        return None
    delay_s = around.backoff.delay_s(len(tried.prior), around.jitter)
    return _retry(tried, failed, delay_s, around, counted=True)


def _used_up(tried: Case, around: Circumstances) -> dead_letter.DeadLetter:
    which = means.lacking(tried, around.account) or "attempts"
    cause = dead_letter.BudgetExhausted(which=which)
    return events.dead_letter(tried, cause, around.account, around.now)


def _wait(case: Case, failed: failure.Failure, around: Circumstances) -> Decision:
    """Uncounted: bounded by the deadline, and by a maximum, instead of the budget."""
    waits = case.waits + 1
    if waits > WAITS_MAX:
        tried = history.with_failure(case, failed, None)
        cause = dead_letter.InvalidAnswer(failure=failed)
        return events.dead_letter(tried, cause, around.account, around.now)
    delay_s = around.backoff.delay_s(waits, around.jitter)
    if isinstance(failed, failure.Throttled):
        # Never sooner than it says; and `0`, said again and again, must not use up all waits.
        delay_s = max(delay_s, failed.retry_after_s or 0.0)
    if delay_s <= WAIT_IN_MEMORY_S_MAX:
        return Wait(failed, delay_s)
    return _retry(case, failed, delay_s, around, counted=False)


def _retry(
    case: Case, failed: failure.Failure, delay_s: float, around: Circumstances, *, counted: bool
) -> RetryRequest:
    delay = timedelta(seconds=min(delay_s, TTL_S_MAX))  # a provider may say any number
    not_before = min(around.now + delay, case.deadline)
    return events.retry(case, failed, not_before, around.account, around.now, counted=counted)
