"""Consumers with the interface and the manners of aiokafka's: one of the group, one that reads."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiokafka import ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaConnectionError
from aiokafka.structs import OffsetAndMetadata

from tests.simulation.cluster import Cluster
from tests.simulation.group import Group, Round
from tests.simulation.log import Entry
from tests.simulation.process import CURRENT, Process

REJOIN_S = 0.1

Found = dict[TopicPartition, list[ConsumerRecord]]


@dataclass(slots=True)
class PartitionState:
    position: int | None = None
    is_paused: bool = False


class SimConsumer:
    """A member of the group. A new assignment forgets what was paused and where one stood."""

    def __init__(
        self,
        cluster: Cluster,
        group: Group,
        topic: str,
        process: Process,
        listener: ConsumerRebalanceListener,
    ) -> None:
        self.process = process
        self._cluster, self._group, self._topic = cluster, group, topic
        self._listener = listener
        self._generation = -1
        self._states: dict[int, PartitionState] = {}
        self._is_rejoining = True
        self._rebalancing = asyncio.Event()
        self._moved = asyncio.Event()
        cluster.consumers.append(self)
        cluster.watchers.append(self._on_growth)
        self._belonging = asyncio.create_task(self._belong())

    def begin_rebalance(self) -> None:
        """A heartbeat was answered with the news that all are to join again."""
        self._rebalancing.set()

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(self._topic, partition) for partition in self._states}

    def pause(self, *places: TopicPartition) -> None:
        for place in places:
            self._state(place).is_paused = True

    def resume(self, *places: TopicPartition) -> None:
        for place in places:
            self._state(place).is_paused = False
            self._moved.set()

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._state(place).position = offset
        self._group.boundary.sought(self.process, place.partition, offset)
        self._moved.set()

    async def position(self, place: TopicPartition) -> int:
        state = self._state(place)
        if state.position is None:
            state.position = self._beginning(place.partition)
        return state.position

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        logs = {place: self._cluster.log(place.topic, place.partition) for place in places}
        return await self._cluster.ask(lambda: {place: log.start for place, log in logs.items()})

    async def committed(self, place: TopicPartition) -> int | None:
        return await self._cluster.ask(lambda: self._cluster.offsets.get(place.partition))

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        ((place, offset),) = offsets.items()
        self._state(place)
        generation = self._generation
        await self._cluster.ask(
            lambda: self._group.commit(self, generation, place.partition, offset.offset)
        )

    async def getmany(self, *, timeout_ms: int = 0, max_records: int = 500) -> Found:
        """Waits until there is something, which spares the loop the idle polls of a real one."""
        while True:
            self._moved.clear()
            found = self._fetch(max_records)
            if found:
                return found
            await self._moved.wait()

    async def stop(self) -> None:
        self._belonging.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([self._belonging])
        self._cluster.consumers.remove(self)
        self._cluster.watchers.remove(self._on_growth)
        await self._cluster.ask(lambda: self._group.leave(self))

    async def _belong(self) -> None:
        while True:
            answer: Round = asyncio.get_running_loop().create_future()
            await self._cluster.ask(lambda answer=answer: self._group.join(self, answer))  # type: ignore[misc]
            given = await answer
            if given is None:
                await asyncio.sleep(REJOIN_S)
                continue
            self._generation, partitions = given
            self._assign(partitions)
            await self._rebalancing.wait()
            self._rebalancing.clear()
            self._is_rejoining = True
            self._tell(f"is revoked {sorted(self._states)}")
            self._listener.on_partitions_revoked(self._in_order())

    def _assign(self, partitions: list[int]) -> None:
        for partition in self._states.keys() - set(partitions):
            self._group.boundary.taken(self.process, partition, self._cluster.clock.now())
        self._states = {partition: PartitionState() for partition in partitions}
        self._tell(f"is assigned {partitions} (generation {self._generation})")
        for partition in partitions:
            self._group.boundary.assigned(self.process, partition)
        self._is_rejoining = False
        self._moved.set()
        self._listener.on_partitions_assigned(self._in_order())

    def _in_order(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in self._states]

    def _fetch(self, max_records: int) -> Found:
        found: Found = {}
        if self._is_rejoining or not self._cluster.reaches(self.process):
            return found
        for partition, state in self._states.items():
            if state.is_paused:
                continue
            log = self._cluster.log(self._topic, partition)
            position = self._beginning(partition) if state.position is None else state.position
            entries, state.position = log.read(max(position, log.start), max_records)
            if entries:
                now = self._cluster.clock.now()
                self._group.boundary.delivered(self.process, partition, entries, now)
                self._cluster.notice(self.process)
                found[TopicPartition(self._topic, partition)] = [_record(e) for e in entries]
        return found

    def _beginning(self, partition: int) -> int:
        return self._cluster.offsets.get(partition, self._cluster.log(self._topic, partition).start)

    def _state(self, place: TopicPartition) -> PartitionState:
        if place.partition not in self._states:
            raise IllegalStateError(f"{place} is not assigned")
        return self._states[place.partition]

    def _on_growth(self, topic: str) -> None:
        if topic == self._topic:
            self._moved.set()

    def _tell(self, text: str) -> None:
        self._cluster.timeline.tell(text)


class SimReader:
    """Reads partitions of its choice, as committed."""

    def __init__(self, *, cluster: Cluster, **_: Any) -> None:
        self._cluster = cluster
        self._positions: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        if not self._cluster.reaches(CURRENT.get()):
            await asyncio.sleep(REJOIN_S)
            raise KafkaConnectionError("no broker")

    async def topics(self) -> set[str]:
        raise KafkaConnectionError("no broker")

    def assign(self, places: Collection[TopicPartition]) -> None:
        self._positions = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._positions[place] = offset

    async def beginning_offsets(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        logs = {place: self._cluster.log(*place) for place in places}
        return await self._cluster.ask(lambda: {p: log.start for p, log in logs.items()})

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        logs = {place: self._cluster.log(*place) for place in places}
        return await self._cluster.ask(lambda: {p: log.stable_end() for p, log in logs.items()})

    async def high_watermarks(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        logs = {place: self._cluster.log(*place) for place in places}
        return await self._cluster.ask(lambda: {p: log.end for p, log in logs.items()})

    async def position(self, place: TopicPartition) -> int:
        return self._positions[place]

    async def getmany(self, *, timeout_ms: int = 0) -> Found:
        found = await self._cluster.ask(self._fetch)
        if not any(found.values()):
            await asyncio.sleep(timeout_ms / 1000)  # as one that waits for what is not there yet
        return found

    async def stop(self) -> None:
        pass

    def _fetch(self) -> Found:
        found: Found = {}
        for place, position in self._positions.items():
            entries, self._positions[place] = self._cluster.log(*place).read(position, 500)
            found[place] = [_record(entry) for entry in entries]
        return found


def _record(entry: Entry) -> ConsumerRecord:
    milliseconds = int(entry.at.timestamp() * 1000)
    return ConsumerRecord(
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        timestamp=milliseconds,
        timestamp_type=1,
        key=entry.key,
        value=entry.value,
        checksum=None,
        serialized_key_size=len(entry.key or b""),
        serialized_value_size=len(entry.value or b""),
        headers=entry.headers,
    )
