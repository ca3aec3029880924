"""The decision on a call: one pure function, and one place where trying again meets the budget."""

import math
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from answerbus import dead_letter, failure
from services.worker.core.attempt import reply as replies
from services.worker.core.attempt.check import TooLarge
from services.worker.core.attempt.plan import Plan
from services.worker.core.budget.remaining_budget import RemainingBudget, first_exhausted
from services.worker.core.limits.breaker import PROVIDER_PAUSE_MAX_S
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import (
    End,
    NextStep,
    Publish,
    PublishRefusal,
    PublishUnvalidated,
    Retry,
    Verdict,
    Wait,
)
from services.worker.core.schema.resolved import Accepted, AcceptedStep

WAIT_IN_MEMORY_S_MAX = 5.0  # longer waits go to the retries topic, where they survive a restart
WAITS_MAX = 1_000  # uncounted waits of one request


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits before trying again, `first_s * factor ** n` up to `max_s`; full jitter."""

    first_s: float
    factor: float
    max_s: float

    def delay_s(self, failures: int, jitter: float) -> float:
        """The wait after `failures` failures (from 1); `jitter` is a uniform number in [0, 1)."""
        try:
            ceiling = self.first_s * self.factor ** max(failures - 1, 0)
        except OverflowError:
            ceiling = self.max_s
        return min(ceiling, self.max_s) * jitter


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """The inputs of a decision beside the call: money and chance.

    `next_plan` is how it is asked next, where that is another profile.
    """

    budget: RemainingBudget
    backoff: Backoff
    jitter: float
    next_plan: Plan | None = None


def decide(call: Call, inputs: DecisionInputs) -> Verdict:
    """Decide how the request of a call goes on or ends; events.event_of says it to others."""
    reply, known = call.reply, call.lane_request.progress.prior
    if call.lane_request.cancelled:
        return End(known, call.lane_request.cancelled)
    match reply:
        case replies.Answered():
            return _of_answer(call, inputs)
        case replies.Refused() if not _asks_again_after_refusal(call, inputs):
            return PublishRefusal(reply)
        case replies.Refused():
            return _again(call, reply.failure, inputs, instead=PublishRefusal(reply))
        case replies.Truncated() | replies.NoAnswer():
            return _again(call, reply.failure, inputs)
        case replies.TimedOut() | replies.Unavailable(ran=True):
            return _again(call, reply.failure, inputs)
        case replies.Rejected(scope="request") if not call.asked_too_much:
            return End(known, dead_letter.Rejected(status=reply.status, code=reply.code))
        case replies.Throttled() | replies.Unavailable() | replies.Rejected():
            return _wait(call, reply.failure, inputs)
        case _:
            assert_never(reply)


def _of_answer(call: Call, inputs: DecisionInputs) -> Verdict:
    policy, checked, refused = call.request.policy, call.checked, call.refused_by_model
    match checked:
        case None:
            raise ValueError("an answer is checked before anything is decided")
        case Accepted():
            if refused is None or not _asks_again_after_refusal(call, inputs):
                return Publish(checked)
            return _again(call, refused, inputs, instead=Publish(checked))
        case AcceptedStep():
            return NextStep(checked)
        case failure.Malformed() | failure.Invalid():
            kept = call.kept_answer
            if policy.on_invalid == "retry":
                again = _again(call, checked, inputs, kept)
            else:
                again = _end(call, checked, dead_letter.InvalidAnswer(failure=checked), kept)
            return again if isinstance(again, Retry) else _last_answer(call, checked) or again
        case TooLarge():
            return End(call.lane_request.progress.prior, dead_letter.AnswerTooLarge())
        case _:
            assert_never(checked)


def _asks_again_after_refusal(call: Call, inputs: DecisionInputs) -> bool:
    """Its policy wants that of the same profile, the settings of the profile of another one."""
    hops, profile = inputs.next_plan.hops if inputs.next_plan else (), call.plan.profile.name
    is_other = any(hop.instead_of == profile and hop.because.kind == "refused" for hop in hops)
    return is_other or call.request.policy.on_refusal == "retry"


def _last_answer(
    call: Call, failed: failure.Malformed | failure.Invalid
) -> Publish | PublishUnvalidated | None:
    """The part of the last, invalid answer that the policy wants published."""
    match call.request.policy.at_last:
        case "unvalidated" if call.plan.schema.is_answer:
            if found := call.answer_as_it_is:
                return PublishUnvalidated(found.value, failed)
        case "text":
            if isinstance(text := call.answer_as_text, Accepted):
                return Publish(text)
        case _:
            pass
    return None


def _again(
    call: Call,
    failed: failure.Failure,
    inputs: DecisionInputs,
    answer: JsonValue = None,
    instead: Publish | PublishRefusal | None = None,
) -> Verdict:
    """Every counted retry goes through here: what ends the request is looked at in one place.

    That is a model that gives the same answer again, or the budget. `instead` is decided then.
    """
    prior, plan = call.prior_after(failed, answer), inputs.next_plan or call.plan
    last = prior[-1]
    equal_max = plan.profile.equal_answers_max or math.inf
    if plan is call.plan and call.equal_answers(last) >= equal_max:
        cause = dead_letter.RepeatsItself(times=last.times, failure=last.failure)
        return instead or End(prior, cause)
    if which := first_exhausted(call.request, plan, prior, inputs.budget):
        return instead or End(prior, dead_letter.BudgetExhausted(which=which))
    delay_s = 0.0 if inputs.next_plan else inputs.backoff.delay_s(len(prior), inputs.jitter)
    return Retry(prior, failed, delay_s, counted=True)


def _end(
    call: Call, failed: failure.Failure, cause: dead_letter.Cause, answer: JsonValue = None
) -> End:
    """The end after a last attempt, which is among those that the dead letter shows."""
    return End(call.prior_after(failed, answer), cause)


def _wait(call: Call, failed: failure.Failure, inputs: DecisionInputs) -> Verdict:
    """Uncounted: bounded by the deadline, and by a maximum, instead of the budget."""
    known = call.lane_request.progress
    waits = known.waits + 1
    if waits > WAITS_MAX:
        return _end(call, failed, dead_letter.WaitedTooOften(waits=known.waits, failure=failed))
    if inputs.next_plan:
        return Wait(failed, 0.0)
    delay_s = inputs.backoff.delay_s(waits, inputs.jitter)
    if isinstance(failed, failure.Throttled):
        # Not sooner than it says, but as often as its profile is probed, where it says a day; and
        # `0`, said again and again, must not use up all waits.
        named_s = min(failed.retry_after_s or 0.0, PROVIDER_PAUSE_MAX_S)
        delay_s = max(delay_s, named_s)
    if delay_s <= WAIT_IN_MEMORY_S_MAX:
        return Wait(failed, delay_s)
    return Retry(known.prior, failed, delay_s, counted=False)
