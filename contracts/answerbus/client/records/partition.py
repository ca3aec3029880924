"""The fetched records of one partition; replaces aiokafka's class, which stops at a fault."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch

from answerbus.client.records.batch import BatchReader, Record, broken_by, stretch
from answerbus.client.records.head import HEAD_BYTES, Head
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unreadable import Fault, Unreadable

OVERHEAD_BYTES: Final = 12  # offset and size, before each batch
BATCH_BYTES_MIN: Final = 14  # behind them, in any format
_SIZE: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_MAGIC: Final = 2  # the format of batches since Kafka 0.11

_TOO_SHORT = Fault("a batch that is as long as its head")
_BAD_SUM = Fault("a batch with the checksum that it states")


class PartitionRecords:
    """Iterates over records, and over Unreadable where there are none; nothing in them raises.

    It has the interface of aiokafka's class of that name: `next_fetch_offset` is where to fetch
    next. Each iteration goes on where the one before ended. It ends early when the allowance is
    spent, and is then in its list; it may be iterated over again, or be dropped and fetched again.
    Nothing in it refers to itself, so that what is dropped is freed at once.
    """

    def __init__(
        self,
        place: TopicPartition,
        fetched: bytes,
        offset: int,
        aborted: Sequence[tuple[int, int]],
        isolation_level: int,
        allowance: PollTimeBudget,
        report: Callable[[Unreadable], None],
    ) -> None:
        self.place, self.next_fetch_offset = place, offset
        self._aborted = list(aborted)  # producers, and where their transactions began, in order
        self._aborting: set[int] = set()
        self._committed_only = isolation_level == READ_COMMITTED
        self._allowance, self._report = allowance, report
        self._batches = _batches(fetched)
        self._batch: bytes | None = None  # that is next, or under way
        self._found: Iterator[Record | None] | None = None  # of the batch under way
        self._is_due = True  # what follows has to be unpacked, or begun, first

    def __iter__(self) -> Iterator[Record]:
        while self._may_go_on():
            begun = self._allowance.begin()
            try:
                for record in self._under_way():
                    if record is None:
                        self._is_due = True
                        break
                    if record.offset < self.next_fetch_offset:
                        continue  # a fetch begins with the whole batch that its offset is in
                    if isinstance(record, Unreadable):
                        self.next_fetch_offset = record.end
                        self._report(record)
                    else:
                        self.next_fetch_offset = record.offset + 1
                    yield record
                else:
                    self._pass_batch()
            finally:
                self._allowance.end(begun)

    def __next__(self) -> Record:
        return next(iter(self))

    def _may_go_on(self) -> bool:
        if not self._is_due:
            return True
        if self._batch is None:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
        if self._allowance.is_spent:
            self._allowance.stopped.append(self)
            return False
        return True

    def _under_way(self) -> Iterator[Record | None]:
        self._is_due = False
        if self._found is None:
            self._found = iter(self._records_of(self._batch or b""))
        return self._found

    def _pass_batch(self) -> None:
        if self._batch is not None:
            self.next_fetch_offset = max(self.next_fetch_offset, _end_of(self._batch))
        self._batch, self._found, self._is_due = None, None, True

    def _records_of(self, batch: bytes) -> Iterable[Record | None]:
        """A bug of ours, or of a library, costs no more than one batch."""
        try:
            if _has_head(batch):
                return self._of_batch(batch)
            return (_whole(self.place, batch, _not_a_batch(batch)),)
        except Exception as error:
            return (_whole(self.place, batch, broken_by(error)),)

    def _of_batch(self, batch: bytes) -> Iterable[Record | None]:
        head, parsed = Head.of(batch), DefaultRecordBatch(batch)
        if not parsed.validate_crc():
            return (_whole(self.place, batch, _BAD_SUM),)
        if (self._committed_only and self._is_aborted(head, parsed)) or head.is_control:
            return ()
        wanted = self.next_fetch_offset
        return BatchReader(self.place, batch, parsed, head, wanted, self._allowance).records()

    def _is_aborted(self, head: Head, parsed: DefaultRecordBatch) -> bool:
        """Whether the batch belongs to an aborted transaction; keeps count of these."""
        if head.producer_id < 0:
            return False
        while self._aborted and self._aborted[0][1] <= head.base_offset:
            self._aborting.add(self._aborted.pop(0)[0])
        if head.is_control:
            if _ends_an_abort(parsed):
                self._aborting.discard(head.producer_id)
            return False
        return head.is_transactional and head.producer_id in self._aborting


def _not_a_batch(batch: bytes) -> Fault:
    magic = batch[_MAGIC_AT]
    return _TOO_SHORT if magic == _MAGIC else Fault(f"a batch of format {_MAGIC}, not {magic}")


def _ends_an_abort(control: DefaultRecordBatch) -> bool:
    marker = next(iter(control))
    return bool(ControlRecord.parse(marker.key) == ABORT_MARKER)


def _batches(fetched: bytes) -> Iterator[bytes]:
    """Each whole batch; the last one of a fetch may be cut."""
    at = 0
    while at + OVERHEAD_BYTES + BATCH_BYTES_MIN <= len(fetched):
        _, size = _SIZE.unpack_from(fetched, at)
        end = at + OVERHEAD_BYTES + max(size, BATCH_BYTES_MIN)
        if end > len(fetched):
            return
        yield fetched[at:end]
        at = end


def _whole(place: TopicPartition, batch: bytes, fault: Fault) -> Unreadable:
    """The placeholder for a whole batch."""
    offset, _ = _SIZE.unpack_from(batch)
    timestamp = Head.of(batch).max_timestamp if _has_head(batch) else -1
    return stretch(place, offset, max(_end_of(batch), offset + 1), fault, timestamp, batch)


def _has_head(batch: bytes) -> bool:
    return batch[_MAGIC_AT] == _MAGIC and len(batch) >= HEAD_BYTES


def _end_of(batch: bytes) -> int:
    """The offset behind a batch; one of another format states its last."""
    if _has_head(batch):
        return Head.of(batch).end
    offset, _ = _SIZE.unpack_from(batch)
    return int(offset) + 1
