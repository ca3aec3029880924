"""Polls the broker for the Topics page: offsets, groups and their lag."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aiokafka import TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.records.consumer import RecordConsumer
from answerbus.topics import Topic

EVERY_S = 15.0
GROUPS_MAX = 100  # that are asked about


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """`kept` are the offsets between the first and the last record of all partitions."""

    partitions: int
    kept: int
    written: int  # ever, as offsets say


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """How far a consumer group is behind on one topic, over all partitions it has committed in."""

    group: str
    topic: Topic
    lag: int
    partitions: int


@dataclass(slots=True)
class TopicResults:
    """The last answers; nothing is known before the first."""

    topics: Mapping[Topic, TopicStatus] = field(default_factory=dict)
    groups: Sequence[GroupStatus] = field(default_factory=tuple)
    error: str | None = None


class TopicPoller:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.results = TopicResults()

    async def run(self) -> None:
        while True:
            try:
                await self._poll()
            except BusUnavailable as error:
                self.results.error = str(error)
            await asyncio.sleep(EVERY_S)

    async def _poll(self) -> None:
        consumer = self._bus.consumer()
        async with self._bus.running(consumer), self._bus.admin() as admin:
            while True:
                ends, statuses = await self._topics(consumer)
                groups = await self._groups(admin, ends)
                self.results = TopicResults(statuses, groups)
                await asyncio.sleep(EVERY_S)

    async def _topics(
        self, consumer: RecordConsumer
    ) -> tuple[Mapping[TopicPartition, tuple[Topic, int]], Mapping[Topic, TopicStatus]]:
        counts = await self._bus.deployed()
        places = {
            self._bus.place(topic, number): topic
            for topic, count in counts.items()
            for number in range(count)
        }
        starts = await consumer.beginning_offsets(list(places))
        ends = await consumer.end_offsets(list(places))
        found = {
            topic: TopicStatus(
                count,
                sum(ends[at] - starts[at] for at in places if places[at] is topic),
                sum(ends[at] for at in places if places[at] is topic),
            )
            for topic, count in counts.items()
        }
        return {at: (topic, ends[at]) for at, topic in places.items()}, found

    async def _groups(
        self, admin: AIOKafkaAdminClient, ends: Mapping[TopicPartition, tuple[Topic, int]]
    ) -> Sequence[GroupStatus]:
        listed = sorted({name for name, *_ in await admin.list_consumer_groups()})
        found = list[GroupStatus]()
        for group in listed[:GROUPS_MAX]:
            try:
                committed = await admin.list_consumer_group_offsets(group)
            except GroupAuthorizationFailedError:
                continue  # there may be such groups beside ours
            behind: dict[Topic, list[int]] = {}
            for at, position in committed.items():
                if at in ends and position.offset >= 0:
                    topic, end = ends[at]
                    behind.setdefault(topic, []).append(max(0, end - position.offset))
            found += [
                GroupStatus(group, topic, sum(lags), len(lags)) for topic, lags in behind.items()
            ]
        return found
