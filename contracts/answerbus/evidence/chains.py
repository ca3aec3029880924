"""The chains of a pack: each record links to the one before it in its account, or in its run."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from answerbus.evidence.record_digest import record_of

CLOCKS_S = 300.0  # that times of two workers may differ
MISMATCHES_MAX = 10_000  # that are looked into

ChainName = tuple[str, ...]
"""An account, or the workflow and the request of a run."""


class PackChain:
    """A chain after its records so far; `begins` is the hash that its first record follows."""

    __slots__ = ("at", "begins", "count", "head")

    def __init__(self, begins: str | None, at: str) -> None:
        self.begins, self.at = begins, at
        self.count, self.head = 0, begins


class Mismatch(NamedTuple):
    """A record that does not link to the one before it."""

    line: int
    digest: str
    previous: str | None


class ChainCheck:
    """Takes the records of one file in their order; `remember_s` is how long accounts are known."""

    def __init__(self, *, at: str, remember_s: float | None = None) -> None:
        self._at, self._remember_s = at, remember_s
        self.chains: dict[ChainName, PackChain] = {}
        self.mismatches: list[Mismatch] = []

    def follow(self, name: ChainName, body: dict[str, Any], line: int) -> str:
        """Add the next record of a chain; gives its hash."""
        digest, previous, at = str(body.get("hash")), _previous(body), str(body.get(self._at))
        chain = self.chains.get(name)
        if chain is None:
            chain = self.chains[name] = PackChain(previous, at)
        elif previous != chain.head and not self._starts_again(chain, previous, at):
            self.mismatches.append(Mismatch(line, digest, previous))
            del self.mismatches[MISMATCHES_MAX:]
        chain.head, chain.at = digest, at
        chain.count += 1
        return digest

    def _starts_again(self, chain: PackChain, previous: str | None, at: str) -> bool:
        """An account without an event for so long is forgotten, and begins again."""
        if previous is not None or self._remember_s is None:
            return False
        try:
            rest = datetime.fromisoformat(at) - datetime.fromisoformat(chain.at)
        except (ValueError, TypeError):
            return False
        return rest.total_seconds() + CLOCKS_S >= self._remember_s


def _previous(body: dict[str, Any]) -> str | None:
    found = body.get("previous")
    return None if found is None else str(found)


def kinds_of(mismatches: list[Mismatch], lines: Iterable[bytes]) -> dict[int, str]:
    """By the line of each mismatch what was done, from a second look at all lines of the file."""
    wanted = {one.digest for one in mismatches} | {one.previous for one in mismatches}
    first: dict[str, int] = {}
    times, successors = Counter[str](), Counter[str]()
    for number, line in enumerate(lines, start=1):
        read = record_of(line)
        if read is None:
            continue
        digest, previous = str(read[0].get("hash")), _previous(read[0])
        if digest in wanted:
            first.setdefault(digest, number)
            times[digest] += 1
        if previous in wanted and first.get(digest, number) == number:
            successors[str(previous)] += 1  # a copy is no second successor
    return {one.line: _kind(one, first, times, successors) for one in mismatches}


def _kind(
    one: Mismatch, first: dict[str, int], times: Counter[str], successors: Counter[str]
) -> str:
    if times[one.digest] > 1:
        return "duplicated_record"
    if one.previous is None:
        return "fork"
    if one.previous not in first:
        return "dropped_record"
    if successors[one.previous] > 1:
        return "fork"
    return "reordered_record"
