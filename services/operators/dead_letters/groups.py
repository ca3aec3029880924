"""Groups dead letters by shared properties, and counts them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import repeat
from operator import attrgetter, itemgetter
from types import MappingProxyType

from services.operators.dead_letters.row import NOTHING, BudgetAmounts, DeadLetterRow
from services.operators.records.dead_letter_key import DeadLetterKey

LABEL = "label:"

_Values = tuple[str | None, ...]
_DeadLetters = Sequence[DeadLetterRow]


@dataclass(frozen=True, slots=True)
class Key:
    """A field to group and choose dead letters by; `label` is set where the kind is `label:`."""

    kind: str
    label: str = ""

    def __str__(self) -> str:
        return self.kind + self.label

    @property
    def getter(self) -> Callable[[DeadLetterRow], str | None]:
        """Gives a dead letter's value; None where it has none."""
        return _READ.get(self.kind) or partial(_labelled, self.label)


def _labelled(name: str, dead_letter: DeadLetterRow) -> str | None:
    for label, text in dead_letter.labels:  # a generator takes twice as long
        if label == name:
            return text
    return None


# Read by C code where that can be: lists of 100,000 are grouped while someone waits.
_READ: Mapping[str, Callable[[DeadLetterRow], str | None]] = MappingProxyType(
    {
        "why": attrgetter("why"),
        "problem": attrgetter("problem"),
        "cause": attrgetter("cause"),
        "failure": attrgetter("failure"),
        "contract": attrgetter("schema"),
        "profile": attrgetter("profile"),
        "model": attrgetter("model"),
        "workflow": attrgetter("workflow_id"),
        "round": lambda dead_letter: str(dead_letter.round),
        "status": attrgetter("status"),
    }
)
KEYS = tuple(_READ)
BY_DEFAULT = ("why", "contract", "profile")


def key_of(text: str) -> Key | None:
    """`cause`, `label:tenant` and so on; None for anything else."""
    if text in KEYS:
        return Key(text)
    label = text.removeprefix(LABEL)
    return Key(LABEL, label) if label and label != text else None


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters with the same values; `sample` is the newest, times are in ms since 1970.

    `spent` is what the accounts behind them had spent, each account counted once.
    """

    values: tuple[str | None, ...]
    count: int
    oldest_ms: int
    newest_ms: int
    sample: DeadLetterKey
    spent: BudgetAmounts


@dataclass(frozen=True, slots=True)
class FirstGroups:
    """The first of so many groups; the others are not added up."""

    total: int
    groups: Sequence[Group]


def group(dead_letters: Iterable[DeadLetterRow], keys: Sequence[Key]) -> list[Group]:
    """Largest group first."""
    return _in_order(members(dead_letters, keys).items(), ORDERS["letters"])


def first_groups(found: Mapping[_Values, _DeadLetters], order: str, most: int) -> FirstGroups:
    """Those that come first in one of ORDERS, at most so many.

    A label may be unique to each dead letter, with as many groups as dead letters: only what is
    shown is added up, because someone waits.
    """
    rank = ORDERS[order]
    chosen = nsmallest(most, found.items(), key=lambda one: rank(one[1]))
    return FirstGroups(len(found), _in_order(chosen, rank))


def _in_order(
    members: Iterable[tuple[_Values, _DeadLetters]], rank: Callable[[_DeadLetters], int]
) -> list[Group]:
    """Equal ones by their values."""
    ranked = (
        (rank(found), [value or "" for value in values], values, found) for values, found in members
    )
    ordered = sorted(ranked, key=itemgetter(0, 1))
    return [_Sum(found).group(values) for _, _, values, found in ordered]


def members(
    dead_letters: Iterable[DeadLetterRow], keys: Sequence[Key]
) -> Mapping[_Values, _DeadLetters]:
    """The dead letters of each group, by the values that they have in common."""
    ungrouped = list(dead_letters)
    columns = [map(key.getter, ungrouped) for key in keys]
    rows = zip(*columns, strict=True) if columns else repeat(())
    found: defaultdict[_Values, list[DeadLetterRow]] = defaultdict(list)
    for dead_letter, values in zip(ungrouped, rows, strict=False):
        found[values].append(dead_letter)
    return found


class _Spent:
    """The spending of the accounts behind dead letters: the latest amounts of each, once."""

    def __init__(self, dead_letters: _DeadLetters) -> None:
        self._accounts: dict[str, BudgetAmounts] = {}
        self.attempts = self.tokens = self.micro_usd = 0
        self.add(dead_letters)

    def add(self, dead_letters: _DeadLetters) -> None:
        for dead_letter in dead_letters:
            spent, account_id = dead_letter.spent, dead_letter.account_id
            if spent is None or account_id is None:
                continue
            known = self._accounts.get(account_id)
            if known is None or _is_later(spent, known):
                self._accounts[account_id], before = spent, known or NOTHING
                self.attempts += spent.attempts - before.attempts
                self.tokens += (spent.tokens or 0) - (before.tokens or 0)
                self.micro_usd += (spent.micro_usd or 0) - (before.micro_usd or 0)


def _is_later(spent: BudgetAmounts, known: BudgetAmounts) -> bool:
    """Whether an account had spent more; the cost of a tool adds no attempt."""
    if spent.attempts != known.attempts:
        return spent.attempts > known.attempts
    return (spent.micro_usd or 0) > (known.micro_usd or 0)


_AT_MS = attrgetter("at_ms")
ORDERS: Mapping[str, Callable[[_DeadLetters], int]] = MappingProxyType(
    {
        "letters": lambda dead_letters: -len(dead_letters),
        "newest": lambda dead_letters: -max(map(_AT_MS, dead_letters)),
        "oldest": lambda dead_letters: min(map(_AT_MS, dead_letters)),
        "spent": lambda dead_letters: -_Spent(dead_letters).micro_usd,
    }
)
"""Ways to order groups, by name: what is less comes first."""


class GroupFold:
    """The groups of all dead letters that were added; `count` is how many these are."""

    def __init__(self) -> None:
        self._sums: dict[_Values, _Sum] = {}
        self.count = 0

    def add(self, members: Mapping[_Values, _DeadLetters]) -> None:
        """Dead letters that were not added before, by the values of their group."""
        for values, found in members.items():
            self.count += len(found)
            if values in self._sums:
                self._sums[values].add(found)
            else:
                self._sums[values] = _Sum(found)

    def first(self, order: str, most: int) -> FirstGroups:
        """Those that come first in one of ORDERS, at most so many."""
        rank = _RANKS[order]
        groups = (found.group(values) for values, found in self._sums.items())
        chosen = nsmallest(
            most, groups, key=lambda group: (rank(group), [value or "" for value in group.values])
        )
        return FirstGroups(len(self._sums), chosen)


class _Sum:
    def __init__(self, dead_letters: _DeadLetters) -> None:
        self._count, self._spent = len(dead_letters), _Spent(dead_letters)
        self._oldest_ms = min(map(_AT_MS, dead_letters))
        self._newest = max(dead_letters, key=_AT_MS)

    def add(self, dead_letters: _DeadLetters) -> None:
        self._count += len(dead_letters)
        self._oldest_ms = min(self._oldest_ms, *map(_AT_MS, dead_letters))
        self._newest = max(self._newest, *dead_letters, key=_AT_MS)
        self._spent.add(dead_letters)

    def group(self, values: _Values) -> Group:
        spent, newest = self._spent, self._newest
        amounts = BudgetAmounts(spent.attempts, spent.tokens, spent.micro_usd)
        return Group(values, self._count, self._oldest_ms, newest.at_ms, newest.key, amounts)


_RANKS: Mapping[str, Callable[[Group], int]] = MappingProxyType(
    {
        "letters": lambda group: -group.count,
        "newest": lambda group: -group.newest_ms,
        "oldest": lambda group: group.oldest_ms,
        "spent": lambda group: -(group.spent.micro_usd or 0),
    }
)
