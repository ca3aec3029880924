"""Which requests have had their one event: a memory that is bounded, and small for each of them."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from struct import Struct

from answerbus.private.ledger import ClosedRecord

CLOSED_MEMORY = timedelta(hours=24)

_PREFIX = "sha256:"
_PACKED = Struct(">32sqq")  # digest, offset, milliseconds since 1970
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Closed:
    """What is remembered of a closed id."""

    body_digest: str
    offset: int
    at: datetime


@dataclass(slots=True)
class ClosedIds:
    """By request id, or by the place of a record that was no request; oldest first.

    There may be a million, so that each is packed into 48 bytes.
    """

    _entries: OrderedDict[str, bytes] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, record: ClosedRecord, at: datetime | None = None) -> None:
        """Remember; a later record of the same id takes the place of the one before.

        `at` is when it was written, where that is known better than by the record itself.
        """
        digest = bytes.fromhex(record.body_digest.removeprefix(_PREFIX))
        milliseconds = ((at or record.at) - _EPOCH) // _MILLISECOND
        self._entries[record.closes] = _PACKED.pack(digest, record.offset, milliseconds)
        self._entries.move_to_end(record.closes)

    def drop(self, closes: str) -> None:
        """Forget one."""
        self._entries.pop(closes, None)

    def get(self, closes: str) -> Closed | None:
        """What is remembered of an id."""
        packed = self._entries.get(closes)
        return None if packed is None else _unpacked(packed)

    def forget(self, now: datetime, committable: int) -> None:
        """Let go of what is older than 24 h.

        An id whose record stands at or above `committable` may be delivered again, however long
        the lane was shut, and is kept until that has passed.
        """
        while self._entries:
            oldest = _unpacked(next(iter(self._entries.values())))
            if now - oldest.at <= CLOSED_MEMORY or oldest.offset >= committable:
                return
            self._entries.popitem(last=False)


def _unpacked(packed: bytes) -> Closed:
    digest, offset, milliseconds = _PACKED.unpack(packed)
    return Closed(_PREFIX + digest.hex(), offset, _EPOCH + milliseconds * _MILLISECOND)
