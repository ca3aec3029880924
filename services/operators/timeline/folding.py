"""Folds repeated lines: stretches of one or two lines that recur; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 3  # times, before it is worth folding
_PERIOD_MAX = 2  # an attempt and its retry
_DIGITS = str.maketrans("", "", "0123456789.,:")


@dataclass(frozen=True, slots=True)
class Fold:
    """`period` lines from `start` on, which are there `count` times, one after the other."""

    start: int
    period: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def folds(entries: Sequence[object]) -> list[Fold]:
    """All lines, in their order; a line that is not repeated is a fold of its own."""
    found, at = list[Fold](), 0
    while at < len(entries):
        options = (Fold(at, period, _count(entries, at, period)) for period in (1, _PERIOD_MAX))
        best = max(options, key=lambda fold: (fold.count >= LEAST) * fold.period * fold.count)
        fold = best if best.count >= LEAST else Fold(at, 1, 1)
        found.append(fold)
        at = fold.end
    return found


def without_numbers(text: str) -> str:
    """The text of a line without its numbers: of attempts, seconds, times of day."""
    return text.translate(_DIGITS)


def _count(entries: Sequence[object], at: int, period: int) -> int:
    pattern, count = entries[at : at + period], 1
    while len(pattern) == period and entries[at + count * period :][:period] == pattern:
        count += 1
    return count
