"""Which requests have had their one event: a memory that is bounded, and small for each of them."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.ledger import ClosedRecord

CLOSED_MEMORY = timedelta(hours=24)


_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True)
class Closed:
    """What is kept of one closed id: 0.4 KB with its key, and of a million there may be."""

    digest: bytes
    offset: int
    at: datetime

    @property
    def body_digest(self) -> str:
        """The digest as events have it."""
        return _PREFIX + self.digest.hex()


@dataclass(slots=True)
class ClosedIds:
    """By request id, or by the place of a record that was no request; oldest first."""

    _entries: OrderedDict[str, Closed] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, record: ClosedRecord) -> None:
        """Remember; a later record of the same id takes the place of the one before."""
        digest = bytes.fromhex(record.body_digest.removeprefix(_PREFIX))
        self._entries[record.closes] = Closed(digest, record.offset, record.at)
        self._entries.move_to_end(record.closes)

    def get(self, closes: str) -> Closed | None:
        """What is remembered of an id."""
        return self._entries.get(closes)

    def forget(self, now: datetime, committable: int) -> None:
        """Let go of what is older than 24 h.

        An id whose record stands at or above `committable` may be delivered again, however long
        the lane was shut, and is kept until that has passed.
        """
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if now - oldest.at <= CLOSED_MEMORY or oldest.offset >= committable:
                return
            self._entries.popitem(last=False)
