"""Two members of a consumer group with one interface: today's, and one by librdkafka."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, Protocol

import confluent_kafka
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.subscription import (
    FETCH_BYTES_MAX,
    PARTITION_FETCH_BYTES_MAX,
    POLL_MS,
    RECORDS_PER_POLL_MAX,
    heartbeat_ms,
)

SESSION_MS = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """Partitions that were given or taken, by `time.monotonic`."""

    at: float
    kind: Literal["assigned", "revoked"]
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Read:
    """The part of a record by which what is delivered is judged."""

    partition: int
    offset: int
    value: bytes | None


Take = Callable[[Sequence[Read]], Awaitable[None]]


class Member(Protocol):
    """What lanes need of the consumer: the interface between Kafka's client and them."""

    history: list[Change]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def owned(self) -> set[int]: ...

    def pause(self, partition: int) -> None: ...

    def resume(self, partition: int) -> None: ...

    def seek(self, partition: int, offset: int) -> None: ...

    async def commit(self, partition: int, offset: int) -> None: ...


class Classic(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    """As the worker subscribes: aiokafka, the classic protocol, our own reading of batches."""

    def __init__(self, servers: str, group: str, topic: str, take: Take) -> None:
        self.history: list[Change] = []
        self._topic, self._take = topic, take
        self._polling: asyncio.Task[None] | None = None
        self._consumer = RecordConsumer(
            bootstrap_servers=servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            partition_assignment_strategy=(StickyPartitionAssignor,),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=heartbeat_ms(SESSION_MS),
            fetch_max_bytes=FETCH_BYTES_MAX,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
        )

    async def start(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        self._polling = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        if self._polling:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling
        await self._consumer.stop()

    async def _poll(self) -> None:
        while True:
            found = await self._consumer.getmany(
                timeout_ms=POLL_MS, max_records=RECORDS_PER_POLL_MAX
            )
            for place, records in found.items():
                # As `Inbox` does: what was fetched before a seek would leave a gap.
                if await self._consumer.position(place) > records[-1].offset:
                    await self._take([Read(r.partition, r.offset, r.value) for r in records])

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._note("assigned", assigned)

    def _note(self, kind: Literal["assigned", "revoked"], places: Iterable[TopicPartition]) -> None:
        if partitions := frozenset(place.partition for place in places):
            self.history.append(Change(time.monotonic(), kind, partitions))

    def owned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def pause(self, partition: int) -> None:
        self._consumer.pause(TopicPartition(self._topic, partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(TopicPartition(self._topic, partition))

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition), offset)

    async def commit(self, partition: int, offset: int) -> None:
        place = TopicPartition(self._topic, partition)
        await self._consumer.commit({place: OffsetAndMetadata(offset, "")})


class Next:
    """By librdkafka, with `group.protocol=consumer`: polled in a thread, taken in the event loop.

    The lock makes a seek and a batch follow one another: a batch that was polled before the seek
    is not delivered after it.
    """

    def __init__(self, servers: str, group: str, topic: str, take: Take) -> None:
        self.history: list[Change] = []
        self._topic, self._take = topic, take
        self._polling: asyncio.Task[None] | None = None
        self._lock, self._stopping = Lock(), False
        self._seeks: dict[int, int] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.max.bytes": FETCH_BYTES_MAX,
                "message.max.bytes": FETCH_BYTES_MAX,
                "max.partition.fetch.bytes": PARTITION_FETCH_BYTES_MAX,
            }
        )

    async def start(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._given, on_revoke=self._taken)
        self._polling = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        self._stopping = True  # a thread cannot be cancelled
        if self._polling:
            await self._polling
        await asyncio.to_thread(self._consumer.close)

    async def _poll(self) -> None:
        while not self._stopping:
            seeks, found = await asyncio.to_thread(self._polled)
            by_partition: dict[int, list[Read]] = {}
            for one in found:
                if one.error() is None:
                    read = Read(one.partition(), one.offset(), one.value())
                    by_partition.setdefault(read.partition, []).append(read)
            for partition, records in by_partition.items():
                if self._seeks.get(partition, 0) == seeks.get(partition, 0):
                    await self._take(records)

    def _polled(self) -> tuple[dict[int, int], list[Any]]:
        with self._lock:
            seeks = dict(self._seeks)
        return seeks, self._consumer.consume(RECORDS_PER_POLL_MAX, POLL_MS / 1000)

    def _given(self, _consumer: Any, places: list[Any]) -> None:
        self._consumer.incremental_assign(places)
        self._note("assigned", places)

    def _taken(self, _consumer: Any, places: list[Any]) -> None:
        self._consumer.incremental_unassign(places)
        self._note("revoked", places)

    def _note(self, kind: Literal["assigned", "revoked"], places: list[Any]) -> None:
        if partitions := frozenset(place.partition for place in places):
            self.history.append(Change(time.monotonic(), kind, partitions))

    def owned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def pause(self, partition: int) -> None:
        self._consumer.pause([self._place(partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([self._place(partition)])

    def seek(self, partition: int, offset: int) -> None:
        with self._lock:
            self._seeks[partition] = self._seeks.get(partition, 0) + 1
            self._consumer.seek(self._place(partition, offset))

    async def commit(self, partition: int, offset: int) -> None:
        places = [self._place(partition, offset)]
        await asyncio.to_thread(self._consumer.commit, offsets=places, asynchronous=False)

    def _place(self, partition: int, offset: int = confluent_kafka.OFFSET_INVALID) -> Any:
        return confluent_kafka.TopicPartition(self._topic, partition, offset)


MEMBERS: dict[str, Callable[[str, str, str, Take], Member]] = {"classic": Classic, "next": Next}
