"""The closed union of decisions on a call."""

from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from answerbus import dead_letter, failure
from answerbus.attempt import AttemptOutcome
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from services.worker.core.schema.resolved import AcceptedStep


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again soon, without a word to anyone: the provider did no work."""

    failure: failure.Failure
    delay_s: float


@dataclass(frozen=True, slots=True)
class NextStep:
    """The answer was a step of a run, which goes on when its tool calls have ended."""

    step: AcceptedStep


Outcome = Result[JsonValue] | UnvalidatedResult | Refusal | RetryRequest | dead_letter.DeadLetter
Decision = Outcome | Wait | NextStep


def attempt_outcome(decision: Decision) -> AttemptOutcome:
    """What the audit calls a decision."""
    match decision:
        case Result() | UnvalidatedResult() | Refusal() | dead_letter.DeadLetter():
            return decision.kind
        case RetryRequest():
            return "retry"
        case Wait():
            return "released"
        case NextStep():
            return "step"
        case _:
            assert_never(decision)
