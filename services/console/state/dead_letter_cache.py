"""Dead letters that filters mean, in the order of their age, kept as dead letters come; pure."""

from bisect import insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import Literal, assert_never

from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.event_summary import DeadLetterSummary
from services.operators.records.summary import RecordSummary

Order = Literal["oldest", "newest", "spent"]
LISTS_KEPT = 3

_AT_MS = attrgetter("at_ms")  # dead letters of one millisecond stand as they were read


@dataclass(slots=True)
class _Kept:
    """The dead letters that are meant, oldest first, of so many of the index."""

    dead_letters: list[DeadLetterRow]
    known: int


class DeadLetterCache:
    """Remembers the filters that were asked for last.

    All of 100,000 dead letters are searched when filters are first used, and after an action of
    an operator, which changes dead letters. Those that come are put into the list.
    """

    def __init__(self, dead_letters: DeadLetterIndex) -> None:
        self._dead_letters = dead_letters
        self._kept: OrderedDict[DeadLetterFilters, _Kept] = OrderedDict()

    def note(self, record: RecordSummary) -> None:
        """The dead letters have changed: there is one more, or something was done about one."""
        if not isinstance(record.event, DeadLetterSummary):
            self._kept.clear()

    def of(self, filters: DeadLetterFilters) -> Sequence[DeadLetterRow]:
        """Oldest first, as they are now."""
        selection, count = filters.selection, len(self._dead_letters)
        kept = None if selection.needs_models else self._kept.get(filters)
        if kept is None:
            kept = _Kept(sorted(selection.of(self._dead_letters), key=_AT_MS), count)
            self._kept[filters] = kept
            if len(self._kept) > LISTS_KEPT:
                self._kept.popitem(last=False)
        newest = list(islice(self._dead_letters.newest(), count - kept.known))
        for dead_letter in selection.of(reversed(newest)):
            insort(kept.dead_letters, dead_letter, key=_AT_MS)
        kept.known = count
        self._kept.move_to_end(filters)
        return kept.dead_letters


def part_of(
    dead_letters: Sequence[DeadLetterRow], order: Order, start: int, count: int
) -> Sequence[DeadLetterRow]:
    """A part of what is given oldest first, in that order."""
    match order:
        case "oldest":
            return dead_letters[start : start + count]
        case "newest":
            end = max(0, len(dead_letters) - start)
            return dead_letters[max(0, end - count) : end][::-1]
        case "spent":
            return nlargest(start + count, dead_letters, _spent_micro_usd)[start:]
        case _:
            assert_never(order)


def _spent_micro_usd(dead_letter: DeadLetterRow) -> int:
    return (dead_letter.spent and dead_letter.spent.micro_usd) or 0
