"""The verdicts on a call, as data: a closed union, and the published ones."""

from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from answerbus import dead_letter, failure
from answerbus.attempt import AttemptOutcome
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import Prior
from services.worker.core.attempt import reply as replies
from services.worker.core.schema.resolved import Accepted, AcceptedStep


@dataclass(frozen=True, slots=True)
class Publish:
    """The answer: a result, or the refusing variant of a contract."""

    accepted: Accepted


@dataclass(frozen=True, slots=True)
class PublishUnvalidated:
    """The last answer, which does not satisfy its schema."""

    answer: JsonValue
    failure: failure.Malformed | failure.Invalid


@dataclass(frozen=True, slots=True)
class PublishRefusal:
    reply: replies.Refused


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after a delay; `prior` are the attempts that the next one sees."""

    prior: tuple[Prior, ...]
    failure: failure.Failure
    delay_s: float
    counted: bool


@dataclass(frozen=True, slots=True)
class End:
    """No answer; `prior` are the attempts that the dead letter lists."""

    prior: tuple[Prior, ...]
    cause: dead_letter.Cause


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again soon, without a word to anyone: the provider did no work."""

    failure: failure.Failure
    delay_s: float


@dataclass(frozen=True, slots=True)
class NextStep:
    """The answer was a step of a run, which goes on when its tool calls have ended."""

    step: AcceptedStep


Published = Publish | PublishUnvalidated | PublishRefusal | Retry | End
Verdict = Published | Wait | NextStep
"""What `decide` gives; see events.event_of for what is published of it."""

Outcome = Result[JsonValue] | UnvalidatedResult | Refusal | RetryRequest | dead_letter.DeadLetter
Decision = Outcome | Wait | NextStep
"""A verdict as it was committed."""


def attempt_outcome(decision: Decision) -> AttemptOutcome:
    """The name of a decision in the audit."""
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
