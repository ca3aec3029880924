"""Groups of dead letters, kept up to date as dead letters come, since pages ask often; pure."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from services.console.views.filters import DeadLetterFilters
from services.operators.dead_letters.groups import (
    BY_DEFAULT,
    Group,
    GroupFold,
    Key,
    first_groups,
    members,
)
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.records.event_summary import DeadLetterSummary
from services.operators.records.summary import RecordSummary

KEPT = 16  # ways of grouping
FOLDS_KEPT = 3  # of those to which dead letters are added: each knows all accounts
GROUPS_MAX = 100  # of each way
STEP_DEAD_LETTERS = 2_000  # counted in one go while pages wait: some milliseconds

_Chosen = tuple[DeadLetterFilters, tuple[Key, ...]]
DEFAULT: _Chosen = (DeadLetterFilters(), tuple(map(Key, BY_DEFAULT)))  # of an operator's page


@dataclass(frozen=True, slots=True)
class Grouped:
    """How many dead letters are meant, how many groups they make, and the first of these."""

    count: int
    total: int
    groups: Sequence[Group]


@dataclass(slots=True)
class _Kept:
    """A fold, and how many dead letters of the index it knows."""

    fold: GroupFold
    dead_letters: int


class GroupCache:
    """Remembers the ways that were asked for last.

    All of 100,000 dead letters are counted when a way is asked for first, and after an action of an
    operator, which changes dead letters. Those that come are added to what was counted.
    """

    def __init__(self, dead_letters: DeadLetterIndex) -> None:
        self._dead_letters = dead_letters
        self._found: OrderedDict[tuple[_Chosen, str], Grouped] = OrderedDict()
        self._folds: OrderedDict[_Chosen, _Kept] = OrderedDict()

    def note(self, record: RecordSummary) -> None:
        """The dead letters have changed: there is one more, or something was done about one."""
        self._found.clear()
        if not isinstance(record.event, DeadLetterSummary):
            self._folds.clear()

    def count_ahead(self) -> Iterator[None]:
        """Count all dead letters for the first page, in steps; none arrives meanwhile."""
        filters, keys = DEFAULT
        dead_letters, kept = list(self._dead_letters), _Kept(GroupFold(), len(self._dead_letters))
        for start in range(0, len(dead_letters), STEP_DEAD_LETTERS):
            step = dead_letters[start : start + STEP_DEAD_LETTERS]
            kept.fold.add(members(filters.selection.of(step), keys))
            yield
        if 0 < _grouped(kept.fold, "letters").total <= GROUPS_MAX:
            self._keep(DEFAULT, kept)

    def of(self, filters: DeadLetterFilters, keys: Sequence[Key], order: str) -> Grouped:
        """The groups as they are now, in an order of ORDERS; no keys, no groups."""
        chosen = (filters, tuple(keys))
        way = (chosen, order)
        if way not in self._found:
            self._found[way] = self._added(chosen, order) or self._counted(chosen, order)
        self._found.move_to_end(way)
        if len(self._found) > KEPT:
            self._found.popitem(last=False)
        return self._found[way]

    def _added(self, chosen: _Chosen, order: str) -> Grouped | None:
        """The counts, with the dead letters since; None where there are none."""
        (filters, keys), kept = chosen, self._folds.get(chosen)
        if kept is None:
            return None
        self._folds.move_to_end(chosen)
        count = len(self._dead_letters)
        newest = list(islice(self._dead_letters.newest(), count - kept.dead_letters))
        kept.fold.add(members(filters.selection.of(reversed(newest)), keys))
        kept.dead_letters = count
        return _grouped(kept.fold, order)

    def _counted(self, chosen: _Chosen, order: str) -> Grouped:
        filters, keys = chosen
        admitted = filters.selection.of(self._dead_letters)
        found = members(admitted, keys) if keys else {}
        if not found or len(found) > GROUPS_MAX or _needs_models(filters, keys):
            first = first_groups(found, order, GROUPS_MAX)
            return Grouped(len(admitted), first.total, first.groups)
        kept = _Kept(GroupFold(), len(self._dead_letters))
        kept.fold.add(found)
        self._keep(chosen, kept)
        return _grouped(kept.fold, order)

    def _keep(self, chosen: _Chosen, kept: _Kept) -> None:
        self._folds[chosen] = kept
        if len(self._folds) > FOLDS_KEPT:
            self._folds.popitem(last=False)


def _needs_models(filters: DeadLetterFilters, keys: Sequence[Key]) -> bool:
    """Whether a dead letter's group may depend on what is read after it: the model."""
    return filters.selection.needs_models or any(key.kind == "model" for key in keys)


def _grouped(fold: GroupFold, order: str) -> Grouped:
    first = fold.first(order, GROUPS_MAX)
    return Grouped(fold.count, first.total, first.groups)
