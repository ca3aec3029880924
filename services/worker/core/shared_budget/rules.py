"""Which budgets a request shares by its labels, in which windows, and their limits; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from answerbus.budget import Spent
from answerbus.nearly_spent import NEARLY_SPENT_PERCENT
from services.worker.core.budget.account import Charged
from services.worker.core.budget.remaining_budget import BudgetUnit

Limit = tuple[int | None, int | None, int | None]  # calls, tokens, micro_usd; None: no limit
UNITS: tuple[BudgetUnit, BudgetUnit, BudgetUnit] = ("attempts", "tokens", "micro_usd")
NO_LIMIT: Limit = (None, None, None)
ZERO: Charged = (0, 0, 0)
ANY = "*"  # any value of a label but none
_DAY, _MONTH = len("2026-11-26"), len("2026-11")


class BudgetKey(NamedTuple):
    """One budget in one window: a day or a month of UTC, such as `2026-11-26` or `2026-11`."""

    budget: str
    window: str

    def is_over(self, now: datetime) -> bool:
        """Whether its window has ended; windows of one length are in the order of time."""
        return self.window < _date(now)[: len(self.window)]


@dataclass(frozen=True, slots=True)
class PeriodLimits:
    """Of one budget, by the length of its windows."""

    day: Limit = NO_LIMIT
    month: Limit = NO_LIMIT


@dataclass(frozen=True, slots=True)
class BudgetRules:
    """By label, then by its value; `ANY` is for values without a rule of their own."""

    by_label: Mapping[str, Mapping[str, PeriodLimits]] = field(default_factory=dict)

    def keys_of(self, labels: Mapping[str, str], now: datetime) -> tuple[BudgetKey, ...]:
        """The budgets that a call with these labels is charged to at `now`, in a fixed order."""
        return tuple(sorted(self._keys_of(labels, now))) if self.by_label else ()

    def _keys_of(self, labels: Mapping[str, str], now: datetime) -> Iterator[BudgetKey]:
        for label in self.by_label:
            value = labels.get(label, "")
            if limits := self._limits(label, value):
                name, date = f"{label}:{value}", _date(now)
                if limits.day != NO_LIMIT:
                    yield BudgetKey(name, date)
                if limits.month != NO_LIMIT:
                    yield BudgetKey(name, date[:_MONTH])

    @property
    def names(self) -> tuple[str, ...]:
        """Of all rules, as the settings have them."""
        return tuple(f"{label}:{it}" for label, rules in self.by_label.items() for it in rules)

    def name_of(self, key: BudgetKey) -> str:
        """The rule that a budget has its limit from."""
        label, _, value = key.budget.partition(":")
        return key.budget if value in self.by_label.get(label, {}) else f"{label}:{ANY}"

    def limit(self, key: BudgetKey) -> Limit:
        """No limit for what these settings do not know: the lane that asks knows it."""
        label, _, value = key.budget.partition(":")
        limits = self._limits(label, value) or PeriodLimits()
        return limits.day if len(key.window) == _DAY else limits.month

    def _limits(self, label: str, value: str) -> PeriodLimits | None:
        found = self.by_label.get(label, {})
        return found.get(value) or (found.get(ANY) if value else None)


def _date(now: datetime) -> str:
    return now.astimezone(UTC).date().isoformat()


def is_nearly_spent(limit: Limit, settled: Charged) -> bool:
    """Whether of one unit so much is used that somebody should know; of a limit of 0 nothing is."""
    return any(
        most is not None and 100 * amount >= max(NEARLY_SPENT_PERCENT * most, 1)
        for most, amount in zip(limit, settled, strict=True)
    )


def unit_beyond(limit: Limit, amounts: Charged) -> BudgetUnit | None:
    """The first unit whose amount is above its limit; zero always fits."""
    for unit, most, amount in zip(UNITS, limit, amounts, strict=True):
        if most is not None and amount > max(most, 0):
            return unit
    return None


def shared(amounts: Charged) -> Charged:
    """The same; of nothing there is one, since leases hold it a million times."""
    return amounts if amounts != ZERO else ZERO


def charged_of(spent: Spent) -> Charged:
    return shared((spent.attempts, spent.tokens, spent.micro_usd))


def minus(one: Charged, other: Charged) -> Charged:
    return shared((one[0] - other[0], one[1] - other[1], one[2] - other[2]))


def at_least_zero(amounts: Charged) -> Charged:
    return max(amounts[0], 0), max(amounts[1], 0), max(amounts[2], 0)


def at_most_zero(amounts: Charged) -> Charged:
    return min(amounts[0], 0), min(amounts[1], 0), min(amounts[2], 0)


def most_of(one: Charged, other: Charged) -> Charged:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def least_of(one: Charged, other: Charged) -> Charged:
    return min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2])


def less(limit: Limit, amounts: Charged) -> Limit:
    """The rest of a limit after these amounts; it may be negative."""
    calls, tokens, micro_usd = (
        None if most is None else most - amount for most, amount in zip(limit, amounts, strict=True)
    )
    return calls, tokens, micro_usd


def limited(limit: Limit, amounts: Charged) -> Charged:
    """The amounts of the units that have a limit; the others are not leased."""
    calls, tokens, micro_usd = (
        0 if most is None else amount for most, amount in zip(limit, amounts, strict=True)
    )
    return calls, tokens, micro_usd
