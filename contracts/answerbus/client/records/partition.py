"""What was fetched of one partition; in the place of aiokafka's own, which gives up on a fault."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch

from answerbus.client.records.allowance import Allowance
from answerbus.client.records.batch import HEAD_BYTES, BatchReader, Head, Record, stretch
from answerbus.client.records.legacy import MESSAGE_BYTES_MIN, OVERHEAD_BYTES, legacy_records
from answerbus.client.records.unreadable import Fault, Unreadable

_SIZE: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_MAGIC: Final = 2  # the format of batches since Kafka 0.11
_CONTROL_KEY_BYTES_MIN: Final = 4

_TOO_SHORT = Fault("a batch that is as long as its head")
_BAD_SUM = Fault("a batch with the checksum that it states")


class PartitionRecords:
    """Iterates over records, and over Unreadable where there are none; nothing in them raises.

    It has the interface of aiokafka's class of that name: `next_fetch_offset` is where to fetch
    next. It ends early when the allowance is spent: what is left is then fetched again.
    """

    def __init__(
        self,
        place: TopicPartition,
        fetched: bytes,
        offset: int,
        aborted: Sequence[tuple[int, int]],
        isolation_level: int,
        allowance: Allowance,
        tell: Callable[[Unreadable], None],
    ) -> None:
        self.next_fetch_offset = offset
        self._place, self._fetched = place, fetched
        self._aborted = list(aborted)  # producers, and where their transactions began, in order
        self._aborting: set[int] = set()
        self._committed_only = isolation_level == READ_COMMITTED
        self._allowance, self._tell = allowance, tell
        self._records = self._read()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return next(self._records)

    def _read(self) -> Iterator[Record]:
        for batch in self._batches():
            if self._allowance.is_spent:
                return
            begun = self._allowance.begin()
            for record in self._records_of(batch):
                if record.offset < self.next_fetch_offset:
                    continue  # a fetch begins with the whole batch that its offset stands in
                if isinstance(record, Unreadable):
                    self.next_fetch_offset = record.end
                    self._tell(record)
                else:
                    self.next_fetch_offset = record.offset + 1
                yield record
            self.next_fetch_offset = max(self.next_fetch_offset, _end_of(batch))
            self._allowance.end(begun)

    def _batches(self) -> Iterator[bytes]:
        """Each whole batch; the last one of a fetch may be cut."""
        fetched, at = self._fetched, 0
        while at + OVERHEAD_BYTES + MESSAGE_BYTES_MIN <= len(fetched):
            _, size = _SIZE.unpack_from(fetched, at)
            end = at + OVERHEAD_BYTES + max(size, MESSAGE_BYTES_MIN)
            if end > len(fetched):
                return
            yield fetched[at:end]
            at = end

    def _records_of(self, batch: bytes) -> Iterable[Record]:
        """A bug of ours, or of a library, costs no more than one batch."""
        try:
            found = self._of_batch(batch) if _has_head(batch) else self._of_message(batch)
        except Exception as error:
            return (self._whole(batch, _broken_by(error)),)
        return found if isinstance(found, list | tuple) else self._guarded(batch, found)

    def _guarded(self, batch: bytes, found: Iterable[Record]) -> Iterator[Record]:
        at, _ = _SIZE.unpack_from(batch)
        try:
            for record in found:
                at = record.end if isinstance(record, Unreadable) else record.offset + 1
                yield record
        except Exception as error:
            yield self._whole(batch, _broken_by(error), at)

    def _of_batch(self, batch: bytes) -> Iterable[Record]:
        head, parsed = Head.of(batch), DefaultRecordBatch(batch)
        if not parsed.validate_crc():
            return (self._whole(batch, _BAD_SUM),)
        if (self._committed_only and self._is_aborted(head, parsed)) or head.is_control:
            return ()
        return BatchReader(self._place, batch, parsed, head, self.next_fetch_offset).records()

    def _of_message(self, message: bytes) -> Iterable[Record]:
        magic = message[_MAGIC_AT]
        if magic < _MAGIC and LegacyRecordBatch(message, magic).validate_crc():
            return legacy_records(self._place, message)
        if magic > _MAGIC:
            return (self._whole(message, Fault(f"a batch of format 0, 1 or 2, not {magic}")),)
        return (self._whole(message, _BAD_SUM if magic < _MAGIC else _TOO_SHORT),)

    def _whole(self, batch: bytes, fault: Fault, at: int | None = None) -> Unreadable:
        """What stands for all of a batch, or from an offset on."""
        base, _ = _SIZE.unpack_from(batch)
        offset = base if at is None else at
        timestamp = Head.of(batch).max_timestamp if _has_head(batch) else -1
        return stretch(
            self._place, offset, max(_end_of(batch), offset + 1), fault, timestamp, batch
        )

    def _is_aborted(self, head: Head, parsed: DefaultRecordBatch) -> bool:
        """Whether the batch belongs to an aborted transaction; keeps count of which are."""
        if head.producer_id < 0:
            return False
        while self._aborted and self._aborted[0][1] <= head.base_offset:
            self._aborting.add(self._aborted.pop(0)[0])
        if head.is_control:
            if _ends_an_abort(parsed):
                self._aborting.discard(head.producer_id)
            return False
        return head.is_transactional and head.producer_id in self._aborting


def _ends_an_abort(control: DefaultRecordBatch) -> bool:
    marker = next(iter(control))
    return bool(ControlRecord.parse(marker.key) == ABORT_MARKER)


def _broken_by(error: Exception) -> Fault:
    return Fault(f"a batch that can be read ({type(error).__name__})")


def _has_head(batch: bytes) -> bool:
    return batch[_MAGIC_AT] == _MAGIC and len(batch) >= HEAD_BYTES


def _end_of(batch: bytes) -> int:
    """The offset behind a batch; that of a message is the last one that it wraps."""
    if _has_head(batch):
        return Head.of(batch).end
    offset, _ = _SIZE.unpack_from(batch)
    return int(offset) + 1
