"""The cost of calls by name and minute, for the names that cost most; pure."""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.console.state.heaviest import DAY_MINUTES, Heaviest
from services.operators.records.within_limits import amount

KEY_MINUTES_MAX = 250_000  # minutes of all names together, 40 bytes each
FORGET_EVERY_MINUTES = 60
_TOKENS_OF_A_MICRO_USD = 10**12  # names are ranked by money, and by tokens where there is no price

NameT = TypeVar("NameT", bound=Hashable)


class Amounts(NamedTuple):
    """Calls that were made, what their providers reported, and what accounts were charged."""

    calls: int = 0
    tokens: int = 0
    micro_usd: int = 0
    charged_micro_usd: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(*map(sum, zip(self, other, strict=True)))

    def minus(self, other: "Amounts") -> "Amounts":
        return Amounts(*(one - less for one, less in zip(self, other, strict=True)))

    @property
    def weight(self) -> int:
        """By which names are ranked; each call weighs something."""
        money = max(self.micro_usd, self.charged_micro_usd)
        return money * _TOKENS_OF_A_MICRO_USD + self.tokens + self.calls


def sum_of(amounts: Iterable[Amounts]) -> Amounts:
    return Amounts(*map(sum, zip(*amounts, strict=True)))


@dataclass(frozen=True, slots=True)
class SpentBy(Generic[NameT]):
    """The amounts of one name; exact if `is_whole`, else a part of them is not counted here."""

    name: NameT
    amounts: Amounts
    is_whole: bool


class SpendTable(Generic[NameT]):
    """Keeps a day of at least `kept` names (see Heaviest); callers add up the others."""

    def __init__(self, kept: int) -> None:
        self._heaviest = Heaviest[NameT](kept)
        self._series: dict[NameT, _Series] = {}
        self.size = 0  # minutes of all names
        self._forgets_at = 0

    def take(self, name: NameT, amounts: Amounts, minute: int) -> None:
        """Count the amounts in that minute."""
        if minute >= self._forgets_at:
            self._forget(minute)
        dropped = self._heaviest.take(name, amounts.weight, minute)
        series = self._series.setdefault(name, _Series())
        self.size += series.add(minute, amounts)
        if self.size > KEY_MINUTES_MAX:
            dropped = [*dropped, *self._heaviest.shrink()]
        for lighter, _ in dropped:
            self.size -= len(self._series.pop(lighter, ()))

    def between(self, first: int, end: int) -> list[SpentBy[NameT]]:
        """The names of the minutes from `first` to before `end`, the dearest first."""
        summed = ((name, series.sum(first, end)) for name, series in self._series.items())
        rows = [
            SpentBy(name, amounts, self._heaviest.is_whole(name))
            for name, amounts in summed
            if any(amounts)
        ]
        return sorted(rows, key=lambda row: (-row.amounts.weight, str(row.name)))

    def _forget(self, minute: int) -> None:
        self._forgets_at = minute + FORGET_EVERY_MINUTES
        for name, series in list(self._series.items()):
            self.size -= series.forget(minute - DAY_MINUTES)
            if not len(series):
                del self._series[name]


class _Series:
    """Amounts by minute, in the order of time, and those of all minutes."""

    __slots__ = ("_columns", "_minutes", "_totals")

    def __init__(self) -> None:
        self._minutes = array("q")
        self._columns = tuple(array("q") for _ in Amounts._fields)
        self._totals = [0] * len(self._columns)

    def __len__(self) -> int:
        return len(self._minutes)

    def add(self, minute: int, amounts: Amounts) -> int:
        """How many minutes it has more."""
        at = bisect_left(self._minutes, minute)
        is_new = at == len(self._minutes) or self._minutes[at] != minute
        if is_new:
            self._minutes.insert(at, minute)
            for column in self._columns:
                column.insert(at, 0)
        for place, (column, added) in enumerate(zip(self._columns, amounts, strict=True)):
            before = column[at]
            column[at] = amount(before + added)
            self._totals[place] += column[at] - before
        return int(is_new)

    def sum(self, first: int, end: int) -> Amounts:
        begin, stop = bisect_left(self._minutes, first), bisect_left(self._minutes, end)
        if stop - begin == len(self._minutes):  # of most names, where a page shows a day
            return Amounts(*self._totals)
        return Amounts(*(sum(column[begin:stop]) for column in self._columns))

    def forget(self, before: int) -> int:
        """How many minutes it has less."""
        gone = bisect_left(self._minutes, before)
        for place, column in enumerate(self._columns):
            self._totals[place] -= sum(column[:gone])
        for column in (self._minutes, *self._columns):
            del column[:gone]
        return gone
