"""Groups to which dead letters are added: nothing that was added up is added up again; pure."""

from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from types import MappingProxyType

from services.operators.dead_letters.groups import FirstGroups, Group
from services.operators.dead_letters.row import NOTHING, DeadLetterRow, Funds

_Values = tuple[str | None, ...]


class GroupFold:
    """The groups of all letters that were added; `count` is how many these are."""

    def __init__(self) -> None:
        self._sums: dict[_Values, _Sum] = {}
        self.count = 0

    def add(self, members: Mapping[_Values, Sequence[DeadLetterRow]]) -> None:
        """Letters that were not added before, by the values of their group."""
        for values, found in members.items():
            self.count += len(found)
            known = self._sums.get(values)
            if known is None:
                known = self._sums[values] = _Sum(found[0])
            known.add(found)

    def first(self, order: str, most: int) -> FirstGroups:
        """Those that come first in one of ORDERS, at most so many."""
        rank = _RANKS[order]
        groups = (found.group(values) for values, found in self._sums.items())
        chosen = nsmallest(
            most, groups, key=lambda group: (rank(group), [value or "" for value in group.values])
        )
        return FirstGroups(len(self._sums), chosen)


class _Sum:
    """One group; of each account what it had spent at most."""

    def __init__(self, first: DeadLetterRow) -> None:
        self._count, self._oldest_ms, self._newest = 0, first.at_ms, first
        self._accounts: dict[str, Funds] = {}
        self._attempts = self._tokens = self._micro_usd = 0

    def add(self, letters: Sequence[DeadLetterRow]) -> None:
        self._count += len(letters)
        for letter in letters:
            self._oldest_ms = min(self._oldest_ms, letter.at_ms)
            if letter.at_ms > self._newest.at_ms:
                self._newest = letter
            spent, account_id = letter.spent, letter.account_id
            if spent is None or account_id is None:
                continue
            known = self._accounts.get(account_id, NOTHING)
            if account_id not in self._accounts or spent.attempts > known.attempts:
                self._accounts[account_id] = spent
                self._attempts += spent.attempts - known.attempts
                self._tokens += (spent.tokens or 0) - (known.tokens or 0)
                self._micro_usd += (spent.micro_usd or 0) - (known.micro_usd or 0)

    def group(self, values: _Values) -> Group:
        spent = Funds(self._attempts, self._tokens, self._micro_usd)
        newest = self._newest
        return Group(values, self._count, self._oldest_ms, newest.at_ms, newest.id, spent)


_RANKS: Mapping[str, Callable[[Group], int]] = MappingProxyType(
    {
        "letters": lambda group: -group.count,
        "newest": lambda group: -group.newest_ms,
        "oldest": lambda group: group.oldest_ms,
        "spent": lambda group: -(group.spent.micro_usd or 0),
    }
)
