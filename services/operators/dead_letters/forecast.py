"""Predicts a replay: the number of requests, the worst cost, and hopeless ones."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import assert_never

from answerbus.dead_letter import ANY_DIALECT, DeadLetter, HostileSchema, UnsupportedSchema
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, Request, TextRef
from answerbus.resumed_run import ResumedCall
from services.operators.dead_letters.past_run import NO_PAST
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    RejectionCode,
    ReplayOrder,
)
from services.operators.dead_letters.row import NOTHING, Funds
from services.operators.records.letter_key import LetterKey


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What the workers know, as far as these settings tell; `profiles` None if they do not."""

    profiles: Collection[str] | None
    registry: Registry


def rejection_of(letter: DeadLetter, request: Request, known: KnownNames) -> Rejection | None:
    """Why this request would fail again at once; None if nothing is known against it."""
    if known.profiles is not None and request.profile not in known.profiles:
        message = f"The settings have no profile {request.profile}"
        return Rejection("unknown_profile", message, forcible=True)
    if request.budget.attempts == 0:
        return Rejection("no_budget", "Its budget allows no attempt", forcible=True)
    match request.answer_schema:
        case ContractRef() as ref:
            if known.registry.find(ref) is None:
                message = f"No contract {ref.name}.v{ref.version} is installed here"
                return Rejection("unknown_contract", message, forcible=True)
        case InlineRef() as schema:
            if _fails_again(letter, request, schema):
                message = "Its schema is the one that was turned down"
                return Rejection("schema", message, forcible=True)
        case TextRef():
            pass
        case other:
            assert_never(other)
    return None


def _fails_again(letter: DeadLetter, request: Request, schema: InlineRef) -> bool:
    """A schema that could harm a worker always can; what one profile cannot say, another may."""
    if letter.request is None or letter.request.answer_schema != schema:
        return False
    match letter.cause:
        case HostileSchema():
            return True
        case UnsupportedSchema(dialect=dialect):
            return dialect == ANY_DIALECT or letter.request.profile == request.profile
        case _:
            return False


def checked_replay(
    letter: DeadLetter, outcome: PreparedReplay | Rejection, order: ReplayOrder, known: KnownNames
) -> PreparedReplay | Rejection:
    """The outcome, held back if the replay would be in vain and the order does not insist."""
    if isinstance(outcome, Rejection) or order.force:
        return outcome
    return rejection_of(letter, outcome.request, known) or outcome


@dataclass(slots=True)
class RejectedGroup:
    """Dead letters that are held back for one reason, and one of them."""

    rejection: Rejection
    sample: LetterKey
    count: int = 0


@dataclass(frozen=True, slots=True)
class RunForecast:
    """How one run goes on: it continues at a step, or starts over; `effects` have happened."""

    letter: LetterKey
    next_step: int
    effects: tuple[ResumedCall, ...]
    fault: str | None = None

    @property
    def starts_over(self) -> bool:
        """Whether tools are called again that have run."""
        return self.next_step == 1

    def text(self) -> str:
        if self.starts_over:
            listed = "; ".join(f"{call.tool} ({call.outcome.kind})" for call in self.effects)
            known = f"its steps are not known: {self.fault}" if self.fault else "none"
            return f"starts over; tools with effects that may have run: {listed or known}"
        many = len(self.effects)
        return f"goes on at step {self.next_step}, {many} calls of tools with effects done"


@dataclass(slots=True)
class Forecast:
    """The sum over all dead letters; `worst` is None where a budget has no limit."""

    sendable: int = 0
    worst: Funds = NOTHING
    held_back: dict[RejectionCode, RejectedGroup] = field(default_factory=dict)
    runs: list[RunForecast] = field(default_factory=list)

    def take(self, letter: LetterKey, outcome: PreparedReplay | Rejection) -> None:
        if isinstance(outcome, Rejection):
            held = self.held_back.setdefault(outcome.code, RejectedGroup(outcome, letter))
            held.count += 1
            return
        if outcome.past != NO_PAST:
            self.runs.append(_run_forecast(letter, outcome))
        budget = outcome.request.budget
        self.sendable += 1
        self.worst = Funds(
            self.worst.attempts + budget.attempts,
            _sum(self.worst.tokens, budget.tokens),
            _sum(self.worst.micro_usd, budget.micro_usd),
        )

    @property
    def held_back_count(self) -> int:
        """How many dead letters would not be sent."""
        return sum(held.count for held in self.held_back.values())


def _run_forecast(letter: LetterKey, prepared: PreparedReplay) -> RunForecast:
    resumed, past = prepared.request.resumed, prepared.past
    next_step = len(resumed.steps) + 1 if resumed else 1
    return RunForecast(letter, next_step, past.effects, past.fault)


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
