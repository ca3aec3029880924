"""Requests of one lane that claim shared budgets: each in one order, and of each budget in turn."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice, takewhile

from answerbus.cause import BudgetExhausted
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Charged, plus
from services.worker.core.shared_budget.rules import ZERO, BudgetKey

ASKED_FOR_AT_ONCE_MAX = 64  # claims that wait behind the first


@dataclass(eq=False, slots=True)
class Claim:
    """A call that is to be charged to all `keys`; it holds the first of them already.

    All requests claim in the order of the keys, and who holds one waits only for later ones: so
    no two requests wait for each other.
    """

    request: RequestKey
    need: Charged
    keys: tuple[BudgetKey, ...]
    holds: int = 0  # of the keys, the first so many
    refused: BudgetExhausted | None = None

    @property
    def awaited(self) -> BudgetKey | None:
        """The key that it claims next; None for one that is whole, or refused."""
        is_over = self.refused or self.holds == len(self.keys)
        return None if is_over else self.keys[self.holds]

    @property
    def held(self) -> tuple[BudgetKey, ...]:
        return self.keys[: self.holds]


@dataclass(slots=True)
class BudgetClaims:
    """By request, and of each budget those that wait for it, in their order."""

    _of: dict[RequestKey, Claim] = field(default_factory=dict)
    _waiting: dict[BudgetKey, dict[Claim, None]] = field(default_factory=dict)
    _changed: dict[RequestKey, None] = field(default_factory=dict)
    _whole_since: dict[RequestKey, datetime] = field(default_factory=dict)
    _looked_on: date | None = None

    def get(self, request: RequestKey) -> Claim | None:
        return self._of.get(request)

    def put(self, claim: Claim) -> None:
        """Take a claim in, which waits for its first key."""
        self._of[claim.request] = claim
        self._line_up(claim)

    def hold(self, claim: Claim, now: datetime) -> None:
        """It holds the key that it waited for, and claims the next."""
        self._step_out(claim)
        claim.holds += 1
        self._line_up(claim)
        if claim.awaited is None:
            self._whole_since[claim.request] = now

    def whole_until(self, until: datetime) -> list[RequestKey]:
        """Requests that have held all that they claim since then, and have not spent it."""
        return [*takewhile(lambda it: self._whole_since[it] <= until, self._whole_since)]

    def refuse(self, claim: Claim, cause: BudgetExhausted) -> None:
        self._step_out(claim)
        claim.refused, claim.holds = cause, 0
        self._changed[claim.request] = None

    def end(self, claim: Claim) -> None:
        """It is spent, or its request no longer asks for that."""
        self._step_out(claim)
        del self._of[claim.request]
        self._whole_since.pop(claim.request, None)
        self._changed.pop(claim.request, None)

    def first(self, key: BudgetKey) -> Claim | None:
        """The first claim in line."""
        return next(iter(self._waiting.get(key, ())), None)

    def behind_first(self, key: BudgetKey) -> Charged:
        """The sum of the next claims' needs."""
        total = ZERO
        for claim in islice(self._waiting.get(key, ()), 1, ASKED_FOR_AT_ONCE_MAX + 1):
            total = plus(total, claim.need)
        return total

    def wake_over(self, now: datetime) -> None:
        """Those that wait with a day or month that has ended are to claim again, in the next."""
        today = now.astimezone(UTC).date()
        if today == self._looked_on:
            return
        self._looked_on = today
        for claim in self._of.values():
            if claim.awaited and any(key.is_over(now) for key in claim.keys):
                self._changed[claim.request] = None

    def take_changed(self) -> tuple[RequestKey, ...]:
        """Requests that are to try again: their claim is whole, refused, or of a past window."""
        taken = tuple(self._changed)
        self._changed.clear()
        return taken

    def _line_up(self, claim: Claim) -> None:
        if key := claim.awaited:
            self._waiting.setdefault(key, {})[claim] = None
        else:
            self._changed[claim.request] = None

    def _step_out(self, claim: Claim) -> None:
        key = claim.awaited
        if key is None:
            return
        del self._waiting[key][claim]
        if not self._waiting[key]:
            del self._waiting[key]
