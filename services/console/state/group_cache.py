"""Groups of letters, counted again only when letters have changed, since pages ask often; pure."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.groups import Group, Key, first_groups
from services.operators.dead_letters.index import DeadLetterIndex

KEPT = 16  # ways of grouping
GROUPS_MAX = 100  # of each way

_Way = tuple[DeadLetterFilters, tuple[Key, ...], str]


@dataclass(frozen=True, slots=True)
class Grouped:
    """How many dead letters are meant, how many groups they make, and the first of these."""

    count: int
    total: int
    groups: Sequence[Group]


class GroupCache:
    """Remembers the ways that were asked for last."""

    def __init__(self, letters: DeadLetterIndex) -> None:
        self._letters = letters
        self._kept: OrderedDict[_Way, Grouped] = OrderedDict()

    def clear(self) -> None:
        """The dead letters have changed."""
        self._kept.clear()

    def of(self, filters: DeadLetterFilters, keys: Sequence[Key], order: str) -> Grouped:
        """The groups as they are now, in an order of ORDERS; no keys, no groups."""
        way = (filters, tuple(keys), order)
        if way not in self._kept:
            admitted = filters.selection.of(self._letters)
            first = first_groups(admitted if keys else (), keys, order, GROUPS_MAX)
            self._kept[way] = Grouped(len(admitted), first.total, first.groups)
        self._kept.move_to_end(way)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[way]
