"""A partition as a broker keeps it: records, transactions that are not decided yet, compaction."""

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from itertools import islice

Headers = tuple[tuple[str, bytes | None], ...]


class Fate(Enum):
    """What has become of a transaction."""

    OPEN = auto()
    PREPARED = auto()  # the commit is certain, its markers are not written yet
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True, eq=False)
class Transaction:
    """`offset` is that of the group which goes with it."""

    id: str
    epoch: int
    fate: Fate = Fate.OPEN
    offset: tuple[int, int] | None = None
    entries: list["Entry"] = field(default_factory=list)
    logs: list["Log"] = field(default_factory=list)
    partitions: set[tuple[str, int]] = field(default_factory=set)  # that may be written to
    has_group: bool = False  # so that its offset may be set

    @property
    def is_undecided(self) -> bool:
        """Whether readers of what is committed must wait."""
        return self.fate is Fate.OPEN or self.fate is Fate.PREPARED


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One record in its place."""

    topic: str
    partition: int
    offset: int
    at: datetime
    key: bytes | None
    value: bytes | None
    headers: Headers
    transaction: Transaction | None = None

    @property
    def is_committed(self) -> bool:
        """Whether readers of what is committed see it, once what is before it is decided."""
        return self.transaction is None or self.transaction.fate is Fate.COMMITTED


@dataclass(slots=True)
class Log:
    """Offsets have gaps: markers and aborted records take theirs, compaction leaves some out.

    `whole` keeps, for the audit, what compaction and retention removed. What is before
    `_decided_to` is decided, and stays so.
    """

    topic: str
    partition: int
    start: int = 0
    end: int = 0
    entries: list[Entry] = field(default_factory=list)
    whole: list[Entry] = field(default_factory=list)
    _decided_to: int = 0

    def append(
        self,
        at: datetime,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        transaction: Transaction | None = None,
    ) -> Entry:
        """Put a record at the end."""
        entry = Entry(self.topic, self.partition, self.end, at, key, value, headers, transaction)
        self.entries.append(entry)
        self.whole.append(entry)
        self.end += 1
        return entry

    def read(self, position: int, most: int) -> tuple[list[Entry], int]:
        """What is committed from there on, and the position after it."""
        found: list[Entry] = []
        stop = self.stable_end()
        if position > stop:
            stop = self._undecided_from(position)
        for entry in self.entries[self._place(position) : self._place(stop)]:
            if len(found) == most:
                return found, max(position, entry.offset)
            position = entry.offset + 1
            if entry.is_committed:
                found.append(entry)
        return found, max(position, stop)

    def stable_end(self) -> int:
        """Where readers of what is committed must stop for now."""
        self._decided_to = self._undecided_from(self._decided_to)
        return self._decided_to

    def _undecided_from(self, offset: int) -> int:
        """The first offset from there on that is not decided, else the end."""
        for entry in islice(self.entries, self._place(offset), None):
            if entry.transaction and entry.transaction.is_undecided:
                return entry.offset
        return self.end

    def _place(self, offset: int) -> int:
        return bisect_left(self.entries, offset, key=_offset)

    def compact(self, nulls_before: datetime | None) -> None:
        """Of each key only the last record stays; an old null may go too, once it is alone."""
        cut = self.stable_end()
        last = {e.key: e.offset for e in self.entries if e.offset < cut and e.is_committed}
        self.entries = [
            entry
            for entry in self.entries
            if entry.offset >= cut
            or (last.get(entry.key) == entry.offset and not _is_over(entry, nulls_before))
        ]

    def delete_before(self, offset: int) -> None:
        """What retention does."""
        self.start = max(self.start, offset)
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]


def _is_over(entry: Entry, nulls_before: datetime | None) -> bool:
    return entry.value is None and nulls_before is not None and entry.at < nulls_before


def _offset(entry: Entry) -> int:
    return entry.offset
