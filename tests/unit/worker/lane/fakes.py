"""A broker in memory that keeps Kafka's promises to a lane, and fails on demand."""

import asyncio
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto
from functools import partial
from math import ceil
from operator import attrgetter

from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced, UnknownTopicOrPartitionError

from answerbus.envelope import Headers
from answerbus.partition import partition_of
from answerbus.topics import LEDGER, PARTITIONS_DEFAULT, REQUESTS, RETRIES, RUNS, Topic, toolset_of
from services.worker.core.request.admit import Arrival
from services.worker.core.run.tool_access import UnavailableToolsets
from services.worker.lane.careful_reading import must_be_read_alone, read_alone
from services.worker.lane.lane import Lane
from services.worker.ports.kafka import OutRecord, ReadProgress, RecordTooLarge, StoredRecord
from tests.unit.worker import builders
from tests.unit.worker.lane.virtual import VirtualClock

COMMIT_S = 0.005
HANG_S = 0.1  # between two looks whether the broker answers again
IGNORING_S = 50.0
BATCH_MAX = 500


class Fault(Enum):
    """What goes wrong with one commit."""

    REFUSED = auto()  # it does not happen, and the producer says so
    ANSWER_LOST = auto()  # it happens, and the producer does not know
    HANGS = auto()  # nothing is heard; the next to fence decides by throwing it away
    HANGS_AND_HAPPENS = auto()  # nothing is heard; it happens when the next fences
    IGNORED = auto()  # it does not happen, and the client does not hear of its cancellation either


class RefusedError(Exception):
    """The broker did not take it."""


class NotOursError(Exception):
    """The broker says that the partition belongs to another member."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One record in a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    at: datetime

    @property
    def timestamp(self) -> int:
        """As Kafka's own records say it, in whole milliseconds; here never before `at`."""
        return ceil(self.at.timestamp() * 1000)


def _ignore() -> None: ...


@dataclass(slots=True)
class Log:
    """A partition: offsets have gaps, since each transaction ends with a marker."""

    records: list[Kept] = field(default_factory=list)
    end: int = 0
    on_append: Callable[[], None] = _ignore

    def append(
        self, key: bytes | None, value: bytes | None, headers: Headers, at: datetime
    ) -> None:
        self.records.append(Kept(self.end, key, value, headers, at))
        self.end += 1
        self.on_append()


@dataclass(slots=True)
class _Transaction:
    records: Sequence[OutRecord]
    offset: int | None
    epoch: int


class Broker:
    """All topics, the group's offsets, and who may write: transactions are atomic and fenced."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._logs: dict[tuple[str, int], Log] = {}
        self.pollers: set[asyncio.Event] = set()  # each is set when a poll may find something
        self.offsets: dict[int, int] = {}
        self.epochs: dict[int, int] = defaultdict(int)
        self.owners: dict[int, object] = {}
        self.faults: deque[Fault | None] = deque()  # of the commits to come, in order
        self.unreachable = False
        self.unwritable: set[str] = set()  # toolsets whose topic takes no record
        self.takes: dict[Topic, int] = {}  # bytes of a record, where an operator lowered that
        self.hangs = False
        self.self_cancelled: list[str] = []  # methods of a shard that end so, once each
        self._undecided: dict[int, tuple[_Transaction, bool]] = {}

    def log(self, topic: Topic, partition: int = 0) -> Log:
        place = topic.name, partition
        if place not in self._logs:
            self._logs[place] = Log(on_append=self.wake_pollers if topic is REQUESTS else _ignore)
        return self._logs[place]

    def wake_pollers(self) -> None:
        for poller in self.pollers:
            poller.set()

    def publish(self, value: bytes, partition: int = 0, headers: Headers = ()) -> int:
        """What upstream does; gives the offset."""
        log = self.log(REQUESTS, partition)
        log.append(None, value, headers, self.clock.now())
        return log.end - 1

    def cancel_itself(self, method: str) -> None:
        """What a client library does whose own futures were cancelled: nobody asked for it."""
        if method in self.self_cancelled:
            self.self_cancelled.remove(method)
            raise asyncio.CancelledError

    def fence(self, partition: int) -> int:
        """Shut out the writer before; what it left open is decided here."""
        if partition in self._undecided:
            transaction, happens = self._undecided.pop(partition)
            if happens:
                self.apply(partition, transaction)
        self.epochs[partition] += 1
        return self.epochs[partition]

    def is_fenced(self, partition: int, epoch: int) -> bool:
        return self.epochs[partition] != epoch

    def commit_offset(self, partition: int, offset: int) -> None:
        """As a group member does; stands against that of a transaction which ends later."""
        self.offsets[partition] = offset
        if partition in self._undecided:
            transaction, happens = self._undecided[partition]
            self._undecided[partition] = replace(transaction, offset=None), happens

    def leave_open(self, partition: int, transaction: _Transaction, *, happens: bool) -> None:
        self._undecided[partition] = transaction, happens

    def check_sizes(self, records: Sequence[OutRecord]) -> None:
        """Raises RecordTooLarge."""
        takes = self.takes
        if large := [it for it in records if it.size_bytes > takes.get(it.topic, it.size_bytes)]:
            raise RecordTooLarge(*large)

    def append(self, record: OutRecord) -> Log:
        """Where it now is; its key says where, if its sender does not."""
        log = self.log(record.topic, _partition(record))
        log.append(record.key, record.value, record.headers, self.clock.now())
        return log

    def apply(self, partition: int, transaction: _Transaction) -> None:
        """All or none, then the markers."""
        touched = {id(log): log for log in map(self.append, transaction.records)}
        for log in touched.values():
            log.end += 1
        if transaction.offset is not None:
            self.offsets[partition] = transaction.offset

    def compact(self, topic: Topic, partition: int = 0) -> None:
        """Keep the last record of each key; null values may go altogether."""
        log = self.log(topic, partition)
        last = {record.key: record.offset for record in log.records}
        log.records = [
            record
            for record in log.records
            if last[record.key] == record.offset and record.value is not None
        ]


def _partition(record: OutRecord) -> int:
    if record.partition is not None:
        return record.partition
    return partition_of(record.key.decode(), record.topic.partitions or PARTITIONS_DEFAULT)


class FakeShard:
    """See ports.Shard."""

    def __init__(
        self,
        broker: Broker,
        partition: int,
        private: tuple[Topic, ...] = (LEDGER, RETRIES),
        unavailable: UnavailableToolsets | None = None,
    ) -> None:
        self.is_closed = False
        self._unavailable = unavailable or UnavailableToolsets()
        self._broker, self._partition, self._private = broker, partition, private
        self._epoch = 0

    async def fence(self) -> None:
        await asyncio.sleep(COMMIT_S)
        self._broker.cancel_itself("fence")
        self._reach()
        self._epoch = self._broker.fence(self._partition)

    async def read_private(
        self, take: Callable[[StoredRecord], None], progress: ReadProgress
    ) -> None:
        self._broker.cancel_itself("read")
        for topic in self._private:
            await asyncio.sleep(COMMIT_S)
            await self._answer()
            self._reach()
            log = self._broker.log(topic, self._partition)
            position = progress.positions.get(topic, 0)
            unread = [record for record in log.records if record.offset >= position]
            progress.positions[topic] = progress.ends[topic] = log.end
            for record in unread:
                found = topic, record.key, record.value, record.headers
                take(StoredRecord(*found, record.offset))

    async def stop_reading(self) -> None:
        await asyncio.sleep(0)

    async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
        assert not self.is_closed, "a closed shard is good for nothing"
        if not records and offset is None:
            return
        self._look_for_topics(records)
        self._broker.cancel_itself("commit")
        transaction = _Transaction(tuple(records), offset, self._epoch)
        fault = self._broker.faults.popleft() if self._broker.faults else None
        if fault in {Fault.HANGS, Fault.HANGS_AND_HAPPENS} and not self._is_fenced():
            happens = fault is Fault.HANGS_AND_HAPPENS
            self._broker.leave_open(self._partition, transaction, happens=happens)
            await asyncio.get_running_loop().create_future()
        if fault is Fault.IGNORED:
            await _sleep_ignoring_cancellation()
        try:
            await asyncio.sleep(COMMIT_S)
            await self._answer()
        except asyncio.CancelledError:
            # aiokafka goes on with a commit that was cancelled.
            if not self._is_fenced():
                self._broker.leave_open(self._partition, transaction, happens=True)
            raise
        self._reach()
        if self._is_fenced():
            raise ProducerFenced
        self._broker.check_sizes(records)
        toolsets = {toolset_of(record.topic) for record in records}
        for toolset in self._broker.unwritable & toolsets:
            self._unavailable.failed(toolset, self._broker.clock.now())
        if fault in {Fault.REFUSED, Fault.IGNORED} or self._broker.unwritable & toolsets:
            raise RefusedError
        self._unavailable.written(filter(None, toolsets))
        self._broker.apply(self._partition, transaction)
        if fault is Fault.ANSWER_LOST:
            raise RefusedError

    def _look_for_topics(self, records: Sequence[OutRecord]) -> None:
        """Where a lane does not read the topic of runs, there is none."""
        if RUNS not in self._private and any(one.topic is RUNS for one in records):
            raise UnknownTopicOrPartitionError

    async def close(self) -> None:
        await asyncio.sleep(COMMIT_S)
        self.is_closed = True
        self._broker.cancel_itself("close")

    def _is_fenced(self) -> bool:
        return self._broker.is_fenced(self._partition, self._epoch)

    async def _answer(self) -> None:
        while self._broker.hangs:
            await asyncio.sleep(HANG_S)

    def _reach(self) -> None:
        if self._broker.unreachable:
            raise ConnectionError


async def _sleep_ignoring_cancellation() -> None:
    ends_at = asyncio.get_running_loop().time() + IGNORING_S
    while (left_s := ends_at - asyncio.get_running_loop().time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left_s)


class FakeIntake:
    """See ports.Intake: the consumer of one worker for one partition, and its poll loop."""

    def __init__(self, broker: Broker, partition: int, worker: object) -> None:
        self.is_paused = True
        self.position = 0
        self._broker, self._partition, self._worker = broker, partition, worker
        self._seeks = 0

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._broker.wake_pollers()

    def seek(self, offset: int) -> None:
        self.position = offset
        self._seeks += 1
        self._broker.wake_pollers()

    async def start_offset(self) -> tuple[int, int]:
        await asyncio.sleep(COMMIT_S)
        records = self._broker.log(REQUESTS, self._partition).records
        earliest = records[0].offset if records else 0
        return self._broker.offsets.get(self._partition, earliest), earliest

    async def prove(self, offset: int) -> None:
        await asyncio.sleep(COMMIT_S)
        if self._broker.owners.get(self._partition) is not self._worker:
            raise NotOursError
        self._broker.commit_offset(self._partition, offset)

    async def poll(self, lane: Lane) -> None:
        """Deliver what there is, as the real intake does: nothing that a seek has overtaken."""
        if self.is_paused or self._broker.owners.get(self._partition) is not self._worker:
            return
        records = self._broker.log(REQUESTS, self._partition).records
        begin = bisect_left(records, self.position, key=attrgetter("offset"))
        batch = records[begin : begin + BATCH_MAX]
        if not batch:
            return
        self.position, seeks = batch[-1].offset + 1, self._seeks
        self._broker.wake_pollers()  # there may be more
        await asyncio.sleep(0)
        if seeks != self._seeks:
            return
        if must_be_read_alone(lane):
            first = batch[0]
            read_alone(
                lane, first.offset, partial(self._arrival, first), partial(self._bare, first)
            )
            return
        lane.deliver([self._arrival(record) for record in batch])

    def _bare(self, record: Kept) -> Arrival:
        bare = builders.arrival(b"", record.offset, self._partition, record.at)
        return replace(bare, value=record.value, headers=record.headers)

    def _arrival(self, record: Kept) -> Arrival:
        return builders.arrival(
            record.value or b"", record.offset, self._partition, record.at, record.headers
        )


class PausedConsumer:
    """What the listener of rebalances needs of a consumer."""

    def __init__(self, intakes: dict[int, FakeIntake]) -> None:
        self._intakes = intakes

    def pause(self, *partitions: TopicPartition) -> None:
        for place in partitions:
            if place.partition in self._intakes:
                self._intakes[place.partition].pause()
