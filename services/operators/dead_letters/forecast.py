"""Predicts a replay: the number of requests, the worst cost, and hopeless ones."""

from bisect import insort
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import assert_never

from answerbus.budget import Budget
from answerbus.dead_letter import ANY_DIALECT, DeadLetter, HostileSchema, UnsupportedSchema
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, Request, TextRef
from answerbus.resumed_run import ResumedCall
from services.operators.dead_letters.past_run import NO_PAST
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    ReplayOrder,
)
from services.operators.dead_letters.row import NOTHING, BudgetAmounts
from services.operators.dead_letters.worst_case import (
    NO_SETTINGS,
    CostOf,
    ProfileCost,
    WorstCase,
    worst_case,
)
from services.operators.records.dead_letter_key import DeadLetterKey

DEAREST_MAX = 10
REASONS_MAX = 20  # that are listed apart; more, such as of many files, are counted by their code


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The workers' knowledge, as far as these settings show it; `profiles` None if they do not.

    `cost_of` gives what bounds a call of a profile, None for one that is not known.
    """

    profiles: Collection[str] | None
    registry: Registry
    cost_of: CostOf = NO_SETTINGS.get


def rejection_of(dead_letter: DeadLetter, request: Request, known: KnownNames) -> Rejection | None:
    """Why this request would fail again at once; None if nothing is known against it."""
    if known.profiles is not None and request.profile not in known.profiles:
        message = f"The settings have no profile {request.profile}"
        return Rejection("unknown_profile", message, forcible=True)
    if _allows_no_call(request.budget, known.cost_of(request.profile)):
        return Rejection("no_budget", "Its budget allows no attempt", forcible=True)
    match request.answer_schema:
        case ContractRef() as ref:
            if known.registry.find(ref) is None:
                message = f"No contract {ref.name}.v{ref.version} is installed here"
                return Rejection("unknown_contract", message, forcible=True)
        case InlineRef() as schema:
            if _fails_again(dead_letter, request, schema):
                message = "Its schema is the one that was turned down"
                return Rejection("schema", message, forcible=True)
        case TextRef():
            pass
        case other:
            assert_never(other)
    return None


def _allows_no_call(budget: Budget, cost: ProfileCost | None) -> bool:
    """Whether no call fits, however short it is."""
    has_price = cost is not None and cost.tariff is not None and any(cost.tariff.dearest(1))
    return 0 in (budget.attempts, budget.tokens) or (budget.micro_usd == 0 and has_price)


def _fails_again(dead_letter: DeadLetter, request: Request, schema: InlineRef) -> bool:
    """A schema that could harm a worker always can; what one profile cannot say, another may."""
    if dead_letter.request is None or dead_letter.request.answer_schema != schema:
        return False
    match dead_letter.cause:
        case HostileSchema():
            return True
        case UnsupportedSchema(dialect=dialect):
            return dialect == ANY_DIALECT or dead_letter.request.profile == request.profile
        case _:
            return False


def checked_replay(
    dead_letter: DeadLetter,
    outcome: PreparedReplay | Rejection,
    order: ReplayOrder,
    known: KnownNames,
) -> PreparedReplay | Rejection:
    """The outcome, held back if the replay would be useless and the order does not insist."""
    if isinstance(outcome, Rejection) or order.force:
        return outcome
    return rejection_of(dead_letter, outcome.request, known) or outcome


@dataclass(slots=True)
class RejectedGroup:
    """Dead letters that are held back for one reason, and one of them."""

    rejection: Rejection
    sample: DeadLetterKey
    count: int = 0


@dataclass(frozen=True, slots=True)
class RunForecast:
    """How one run goes on: it continues at a step, or starts over; `effects` have happened."""

    dead_letter: DeadLetterKey
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


@dataclass(frozen=True, slots=True)
class DeadLetterForecast:
    """The worst-case cost of one replay."""

    dead_letter: DeadLetterKey
    worst: WorstCase

    @property
    def rank(self) -> tuple[int, int]:
        """By which the dearest come first."""
        amounts = self.worst.amounts
        return -(amounts.micro_usd or 0), -(amounts.tokens or 0)


@dataclass(slots=True)
class Forecast:
    """The sum over all dead letters.

    `worst` is of those of which it is known; `unknown` counts the others by the reason, as far as
    money is concerned. `dearest` are DEAREST_MAX of the dead letters. `held_back` are groups of one
    reason each, and past REASONS_MAX one group for each code.
    """

    known: KnownNames
    sendable: int = 0
    worst: BudgetAmounts = NOTHING
    unknown: Counter[str] = field(default_factory=Counter)
    dearest: list[DeadLetterForecast] = field(default_factory=list)
    held_back: dict[Rejection, RejectedGroup] = field(default_factory=dict)
    runs: list[RunForecast] = field(default_factory=list)

    def take(self, dead_letter: DeadLetterKey, outcome: PreparedReplay | Rejection) -> None:
        if isinstance(outcome, Rejection):
            self._hold_back(dead_letter, outcome)
            return
        if outcome.past != NO_PAST:
            self.runs.append(_run_forecast(dead_letter, outcome))
        self.sendable += 1
        self._add(dead_letter, worst_case(outcome.request, self.known.cost_of, self.known.registry))

    def _hold_back(self, dead_letter: DeadLetterKey, why: Rejection) -> None:
        if why not in self.held_back and len(self.held_back) >= REASONS_MAX:
            why = replace(why, text="Other reasons")
        held = self.held_back.setdefault(why, RejectedGroup(why, dead_letter))
        held.count += 1

    def _add(self, dead_letter: DeadLetterKey, worst: WorstCase) -> None:
        amounts = worst.amounts
        self.worst = BudgetAmounts(
            self.worst.attempts + amounts.attempts,
            (self.worst.tokens or 0) + (amounts.tokens or 0),
            (self.worst.micro_usd or 0) + (amounts.micro_usd or 0),
        )
        if worst.unknown is not None:
            self.unknown[worst.unknown] += 1
        insort(self.dearest, DeadLetterForecast(dead_letter, worst), key=attrgetter("rank"))
        del self.dearest[DEAREST_MAX:]

    @property
    def worst_known(self) -> BudgetAmounts:
        """The same, without money or tokens where no dead letter has a known sum of them."""
        is_known = self.sendable > self.unknown.total()
        tokens, micro_usd = self.worst.tokens, self.worst.micro_usd
        return BudgetAmounts(self.worst.attempts, tokens or None, micro_usd if is_known else None)

    @property
    def held_back_count(self) -> int:
        """How many dead letters would not be sent."""
        return sum(held.count for held in self.held_back.values())


def _run_forecast(dead_letter: DeadLetterKey, prepared: PreparedReplay) -> RunForecast:
    resumed, past = prepared.request.resumed, prepared.past
    next_step = len(resumed.steps) + 1 if resumed else 1
    return RunForecast(dead_letter, next_step, past.effects, past.fault)
