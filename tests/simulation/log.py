"""A partition as a broker keeps it: records, transactions that are not decided yet, compaction."""

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

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

    @property
    def is_undecided(self) -> bool:
        """Whether readers of what is committed must wait."""
        return self.fate in {Fate.OPEN, Fate.PREPARED}


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

    `whole` keeps, for the audit, what compaction and retention removed.
    """

    topic: str
    partition: int
    start: int = 0
    end: int = 0
    entries: list[Entry] = field(default_factory=list)
    whole: list[Entry] = field(default_factory=list)

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
        for entry in self.entries[bisect_left(self.entries, position, key=_offset) :]:
            if (entry.transaction and entry.transaction.is_undecided) or len(found) == most:
                return found, max(position, entry.offset)
            position = entry.offset + 1
            if entry.is_committed:
                found.append(entry)
        return found, max(position, self.end)

    def stable_end(self) -> int:
        """Where readers of what is committed must stop for now."""
        undecided = (e.offset for e in self.entries if e.transaction and e.transaction.is_undecided)
        return next(undecided, self.end)

    def compact(self, nulls_before: datetime | None) -> None:
        """Of each key only the last record stays; an old null may go too, once it stands alone."""
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
