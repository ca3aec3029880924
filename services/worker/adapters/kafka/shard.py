"""The Kafka side of a lane, through aiokafka: one transactional id, one partition of each topic."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata

from answerbus.broker_time import moment
from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.client.turns import in_turns
from answerbus.topics import LEDGER, REQUESTS, RETRIES, TOPICS, Topic, toolset_of
from services.kafka.options import TRANSACTION_TIMEOUT_MS
from services.worker.adapters.kafka.tool_topics import ToolTopics
from services.worker.core.run.tool_access import UnavailableToolsets
from services.worker.ports.clock import MeasuredClock
from services.worker.ports.kafka import (
    OutRecord,
    PastCut,
    ReadProgress,
    RecordTooLarge,
    StoredRecord,
)

STOP_TIMEOUT_S = 5.0
ALONE_S = 60.0  # long enough for the lane to open again: batches of one record are slow
START_TIMEOUT_S = 20.0
ASK_TIMEOUT_S = 30.0  # for one answer of the broker
# A process may stand still while it reads, and what it has read is kept: for half as long as the
# null value that ends a retry stays at least.
REST_S_MAX = 43_200.0
RETRY_BACKOFF_MS = 20  # also how soon a successor's start is tried again
PRODUCER_BATCH_BYTES = 256 * 1024
PRODUCER_REQUEST_BYTES_MAX = 2 * 1024 * 1024  # the broker's own limit on records is what binds
LOG_APPEND_TIME = 1  # a timestamp that the broker has set
# Of its past that a lane has unpacked; a worker's lanes may open all at once.
UNPACKED_BYTES_MAX = 1024 * 1024
FETCH_BYTES_MAX = 256 * 1024  # of each topic, packed and not yet read; a larger batch comes whole
_POLL_MS = 500

_log = logging.getLogger(__name__)
NO_PROGRESS_S = 30.0  # a reading that goes on may last; what it has read is not lost with it
REPORT_EVERY_S = 10.0


class PartitionMissing(KafkaError):  # type: ignore[misc]  # aiokafka ships no types
    """A topic has fewer partitions than lanes: it was created again while the worker ran."""

    def __init__(self, topic: str, partition: int | None) -> None:
        super().__init__(
            f"the topic {topic} has no partition {partition}: `answerbus topics apply` gives it "
            "the missing ones"
        )


class RecordRefused(RecordTooLarge, MessageSizeTooLargeError):  # type: ignore[misc]  # no types
    """By the broker: the limit of the topic was lowered."""


class ReadWatchdog:
    """Of one reading."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._moved_at = self._reported_at = asyncio.get_running_loop().time()

    def check(self, before: ReadProgress, positions: Mapping[Topic, int]) -> None:
        """Raises TimeoutError."""
        now = asyncio.get_running_loop().time()
        if positions != before.positions:
            self._moved_at = now
        if now - self._moved_at > NO_PROGRESS_S:
            raise TimeoutError(
                f"Kafka gave no record for {NO_PROGRESS_S:.0f} s; {before}; `answerbus doctor` "
                "names a transaction that holds them back"
            )
        if now - self._reported_at > REPORT_EVERY_S:
            self._reported_at = now
            _log.info("lane %d opens: %s", self._partition, before)


@dataclass(frozen=True, slots=True)
class Names:
    """Where a shard lives; `private` are the topics with its past."""

    prefix: str
    group_id: str
    partition: int
    options: Mapping[str, Any]
    private: tuple[Topic, ...] = (LEDGER, RETRIES)
    rack: str | None = None

    def topic(self, topic: Topic) -> str:
        """A topic's name on the broker."""
        return topic.full_name(self.prefix)


class KafkaShard:
    def __init__(
        self,
        names: Names,
        clock: MeasuredClock,
        unavailable: UnavailableToolsets | None = None,
        on_closed: Callable[[], None] = lambda: None,
        alone: dict[str, float] | None = None,
    ) -> None:
        """`unavailable` records the toolsets whose topics cannot be written.

        Each record of the topics `alone` has a batch of its own until the given time of the clock:
        one record of a batch was too large, and it is not known which.
        """
        self._names, self._on_closed = names, on_closed
        self._alone = {} if alone is None else alone
        self._clock = clock
        self._tool_topics = ToolTopics(names.prefix, clock, unavailable or UnavailableToolsets())
        self._requests = TopicPartition(names.topic(REQUESTS), names.partition)
        self._past = {
            TopicPartition(names.topic(topic), names.partition): topic for topic in names.private
        }
        self._producer: TransactionalProducer | None = None
        self._reader: RecordConsumer | None = None

    async def fence(self) -> None:
        self._producer = TransactionalProducer(
            **self._names.options,
            transactional_id=f"{self._names.prefix}.lane.{self._names.partition}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            max_batch_size=PRODUCER_BATCH_BYTES,
            max_request_size=PRODUCER_REQUEST_BYTES_MAX,
        )
        await bounded(self._producer.start(), START_TIMEOUT_S)
        names = [self._names.topic(topic) for topic in TOPICS]
        if missing := await bounded(self._producer.missing(names), ASK_TIMEOUT_S):
            raise _missing(missing)

    async def read_private(
        self, take: Callable[[StoredRecord], None], progress: ReadProgress
    ) -> None:
        reader: RecordConsumer | None = self._reader
        if reader is None:
            try:
                reader = await bounded(self._start_reader(progress), START_TIMEOUT_S)
            except TimeoutError:
                await self._check_past()
                raise
        # Once no other worker can write for the lane, all of it is read: also what is behind
        # the open transaction of another lane, which may write here and ends within its limit.
        ends_of = reader.high_watermarks if self._producer else reader.end_offsets
        ends = await bounded(ends_of(list(self._past)), ASK_TIMEOUT_S)
        progress.ends = {self._past[place]: end for place, end in ends.items()}
        watch = ReadWatchdog(self._names.partition)
        while any(progress.positions[self._past[place]] < end for place, end in ends.items()):
            asked_at = self._clock.steady_s()
            found = await bounded(reader.getmany(timeout_ms=_POLL_MS), ASK_TIMEOUT_S)
            self._check_age(progress, asked_at)
            positions = await bounded(self._positions(reader), ASK_TIMEOUT_S)
            for place, records in found.items():
                async for record in in_turns(records):
                    take(_stored(self._past[place], record))
            watch.check(progress, positions)
            progress.positions = positions
            del found

    def _check_age(self, progress: ReadProgress, asked_at: float) -> None:
        """Raises PastCut if a null value may have come and gone since it was read last."""
        before, progress.read_at = progress.read_at, asked_at
        rested_s = self._clock.steady_s() - (asked_at if before is None else before)
        if rested_s > REST_S_MAX:
            raise PastCut(f"partition {self._names.partition} was not read for {rested_s:.0f} s")

    async def _positions(self, reader: RecordConsumer) -> dict[Topic, int]:
        return {topic: await reader.position(place) for place, topic in self._past.items()}

    async def _start_reader(self, progress: ReadProgress) -> RecordConsumer:
        self._reader = reader = RecordConsumer(
            **self._names.options,
            client_rack=self._names.rack,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            unpacked_bytes_max=UNPACKED_BYTES_MAX,
            max_partition_fetch_bytes=FETCH_BYTES_MAX,
        )
        await reader.start()
        reader.assign(list(self._past))
        ends = await reader.end_offsets(list(self._past))
        for place, begin in (await reader.beginning_offsets(list(self._past))).items():
            topic = self._past[place]
            position = max(progress.positions.get(topic, begin), begin)
            if position > ends[place]:
                raise PastCut(f"{place.topic} ends at {ends[place]}, and was read to {position}")
            progress.starts.setdefault(topic, begin)
            progress.positions[topic] = position
            reader.seek(place, position)
        return reader

    async def _check_past(self) -> None:
        """Raises if a topic or partition is missing: its client asks for it again and again."""
        reader = self._reader
        if reader is None:
            return
        known = await bounded(reader.topics(), ASK_TIMEOUT_S)
        if missing := sorted({place.topic for place in self._past} - known):
            raise _missing(missing[0])
        for topic, partition in self._past:
            there = reader.partitions_for_topic(topic)
            if there and partition not in there:
                raise PartitionMissing(topic, partition)

    async def stop_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await _stopped(reader, f"the reader of partition {self._names.partition}")

    async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
        producer = self._producer
        if producer is None:
            raise RuntimeError("a shard commits only after it has fenced")
        if not records and offset is None:
            return
        calls = [record for record in records if toolset_of(record.topic)]
        await self._tool_topics.find(producer, calls)
        await producer.begin_transaction()
        before_s, now_ms = self._clock.steady_s(), _milliseconds(self._clock.now())

        async def send(record: OutRecord) -> "asyncio.Future[RecordMetadata]":
            acknowledged: asyncio.Future[RecordMetadata] = await producer.send(
                self._names.topic(record.topic),
                key=record.key,
                value=record.value,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=now_ms,
            )
            return acknowledged

        ours = [record for record in records if not toolset_of(record.topic)]
        alone = {name for name, until_s in self._alone.items() if before_s < until_s}
        sent = await send_batches(producer, ours, self._names.topic, now_ms, alone)
        try:
            await self._tool_topics.write(calls, send, [*sent])
            # Each one: a transaction commits also without a batch that the broker refused.
            acknowledgements = await asyncio.gather(*sent)
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, MessageSizeTooLargeError):  # all that are too large, at once
                await asyncio.gather(*sent, return_exceptions=True)
            self._blame(sent)
            raise
        if acknowledgements:
            self._note_broker_time(acknowledgements[-1], before_s)
        if offset is not None:
            await self._send_offset(producer, offset)
        await producer.commit_transaction()

    def _blame(self, sent: Mapping["Acknowledged", Sequence[OutRecord]]) -> None:
        """Raises RecordTooLarge for the records that were refused alone."""
        refused = [records for found, records in sent.items() if _is_too_large(found)]
        until_s = self._clock.steady_s() + ALONE_S
        self._alone.update((it[0].topic.name, until_s) for it in refused if len(it) > 1)
        if single := [records[0] for records in refused if len(records) == 1]:
            raise RecordRefused(*single)

    async def _send_offset(self, producer: TransactionalProducer, offset: int) -> None:
        try:
            await producer.send_offsets_to_transaction(
                {self._requests: offset}, self._names.group_id
            )
        except TopicAuthorizationFailedError as error:  # aiokafka does not name the topic here
            raise TopicAuthorizationFailedError(self._requests.topic) from error

    def _note_broker_time(self, acknowledged: RecordMetadata, before_s: float) -> None:
        """An acknowledgement has the append time of the record, by the broker's clock."""
        if acknowledged.timestamp_type == LOG_APPEND_TIME:
            self._clock.set_broker_time(acknowledged.timestamp, before_s, self._clock.steady_s())

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        await self.stop_reading()
        if producer is not None:
            await _stopped(producer, f"the producer of partition {self._names.partition}")
            self._on_closed()


def _missing(topic: str) -> KafkaError:
    return UnknownTopicOrPartitionError(
        f"the topic {topic} is missing: create it with `answerbus topics apply`"
    )


def _stored(topic: Topic, record: Record) -> StoredRecord:
    if isinstance(record, Unreadable):
        return StoredRecord(topic, None, b"", (), record.offset, str(record))
    by_broker = record.timestamp_type == LOG_APPEND_TIME
    at = moment(record.timestamp) if by_broker else None
    found = topic, record.key, record.value, record.headers, record.offset
    return StoredRecord(*found, appended_at=at)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


async def _stopped(client: RecordConsumer | TransactionalProducer, name: str) -> None:
    """Stop it, within a bounded time: without its broker it may hang."""
    try:
        await bounded(client.stop(), STOP_TIMEOUT_S)
    except Exception as error:
        _log.warning("%s did not stop: %s", name, describe_error_for_log(error))


Acknowledged = asyncio.Future[RecordMetadata]


async def send_batches(
    producer: TransactionalProducer,
    records: Iterable[OutRecord],
    name_of: Callable[[Topic], str],
    timestamp_ms: int,
    alone: Collection[str] = (),
) -> dict[Acknowledged, list[OutRecord]]:
    """Acknowledgements, one for each batch; records of one partition keep their order.

    The records name their partitions. Those of the topics `alone` share no batch. Raises
    KafkaError.
    """
    sent: dict[Acknowledged, list[OutRecord]] = {}
    open_batches: dict[tuple[str, int | None], tuple[BatchBuilder, list[OutRecord]]] = {}
    for record in records:
        place = name_of(record.topic), record.partition
        found = open_batches.get(place)
        if found and record.topic.name not in alone and _append(found[0], record, timestamp_ms):
            found[1].append(record)
            continue
        if found:
            sent[await _send(producer, place, found[0])] = found[1]
        batch = producer.create_batch()
        _append(batch, record, timestamp_ms)  # an empty batch takes a record of any size
        open_batches[place] = batch, [record]
    for place, (batch, its) in open_batches.items():
        sent[await _send(producer, place, batch)] = its
    return sent


def _is_too_large(found: Acknowledged) -> bool:
    error = found.exception() if found.done() and not found.cancelled() else None
    return isinstance(error, MessageSizeTooLargeError)


def _append(batch: BatchBuilder, record: OutRecord, timestamp_ms: int) -> bool:
    found = batch.append(
        timestamp=timestamp_ms, key=record.key, value=record.value, headers=record.headers
    )
    return found is not None


async def _send(
    producer: TransactionalProducer, place: tuple[str, int | None], batch: BatchBuilder
) -> Acknowledged:
    topic, partition = place
    try:
        sent: Acknowledged = await producer.send_batch(batch, topic, partition=partition)
    except AssertionError as error:  # as aiokafka reports it
        raise PartitionMissing(topic, partition) from error
    return sent
