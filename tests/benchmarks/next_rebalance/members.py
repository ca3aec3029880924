"""Two members of a consumer group with one interface: today's, and one by librdkafka."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.group_consumer import POLL_MS
from services.worker.adapters.kafka.subscription import (
    FETCH_BYTES_MAX,
    PARTITION_FETCH_BYTES_MAX,
    RECORDS_PER_POLL_MAX,
    heartbeat_ms,
)
from tests.benchmarks.next_rebalance.consumer import NextConsumer

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


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    """As the worker subscribes and reads."""

    def __init__(self, make: Callable[..., Any], servers: str, group: str, topic: str, take: Take):
        self.history: list[Change] = []
        self._topic, self._take = topic, take
        self._polling: asyncio.Task[None] | None = None
        self._consumer = make(
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


MEMBERS: dict[str, Callable[[str, str, str, Take], Member]] = {
    "classic": partial(Member, RecordConsumer),
    "next": partial(Member, NextConsumer),
}
