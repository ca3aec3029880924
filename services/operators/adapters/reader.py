"""Topics read from the outside: each committed record once, in the order of its partition."""

import heapq
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from aiokafka import TopicPartition

from answerbus.client.bus import Bus
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.turns import in_turns
from answerbus.topics import Topic
from services.operators.records.stored import Stored

BATCH_RECORDS_MAX = 500  # so that a reader can let others in between two batches
_POLL_MS = 500
_PARTITION_FETCH_BYTES = 1024 * 1024
_FETCH_WAIT_MS = 100  # a question about offsets waits behind a fetch that waits for records


class Reader:
    """Goes on where it stopped. Every method raises BusUnavailable if Kafka cannot be used."""

    def __init__(self, bus: Bus, consumer: RecordConsumer, topics: Mapping[str, Topic]) -> None:
        self._bus, self._consumer, self._topics = bus, consumer, topics

    @property
    def partitions(self) -> Sequence[int]:
        """The numbers of the partitions that are read."""
        return sorted({at.partition for at in self._consumer.assignment()})

    @property
    def is_connected(self) -> bool:
        """Whether a broker can be read from at the moment; connections are made again."""
        return self._consumer.is_connected

    async def to_end(
        self, topics: Collection[Topic] | None = None, partition: int | None = None
    ) -> AsyncIterator[Sequence[Stored]]:
        """What is committed by now and was not read yet, in batches; then it ends.

        Of some of the topics, or of one partition, if they are named.
        """
        ends = await self.end(topics, partition)
        self._fetch_only(ends)
        while behind := await self._behind(ends):
            if found := await self._poll(behind):
                yield found
            ends = {place: ends[place] for place in behind}

    async def records(
        self, topics: Collection[Topic] | None = None, partition: int | None = None
    ) -> AsyncIterator[Stored]:
        """The same one by one, with turns for other tasks in between."""
        async for batch in self.to_end(topics, partition):
            async for stored in in_turns(batch):
                yield stored

    async def oldest_first(
        self, topic: Topic, partitions: Collection[int]
    ) -> AsyncIterator[Stored]:
        """Committed records that were not read yet, of several partitions in order of Kafka's time.

        Records of one partition stay in their order, also where clocks of brokers differ. Holds a
        few batches of each partition.
        """
        found = (await self.end((topic,))).items()
        ends = {at: end for at, end in found if at.partition in partitions}
        queues = {at: deque[Stored]() for at in ends}
        latest_ms, empty = dict.fromkeys(ends, 0), set(ends)
        waiting: list[tuple[int, TopicPartition]] = []  # each partition by its next record
        while True:
            await self._fill(queues, ends, empty)
            for at in empty:
                if not queues[at]:
                    del queues[at]  # it has ended; what comes now is for the next reading
                else:
                    latest_ms[at] = max(latest_ms[at], queues[at][0].at_ms)
                    heapq.heappush(waiting, (latest_ms[at], at))
            if not waiting:
                return
            _, at = heapq.heappop(waiting)
            yield queues[at].popleft()
            empty = {at}

    async def _fill(
        self,
        queues: Mapping[TopicPartition, deque[Stored]],
        ends: Mapping[TopicPartition, int],
        empty: Collection[TopicPartition],
    ) -> None:
        """Give these partitions a record each, unless they are at their ends; and others too."""
        while lacking := {at: ends[at] for at in empty if not queues[at]}:
            if not await self._behind(lacking):
                return
            room = [at for at, queue in queues.items() if len(queue) < BATCH_RECORDS_MAX]
            self._fetch_only(room)
            for stored in await self._poll(room):
                queues[self._bus.place(stored.topic, stored.partition)].append(stored)

    def _fetch_only(self, places: Collection[TopicPartition]) -> None:
        """Pause all others: records fetched and not taken would hold up fetches of their broker."""
        self._consumer.pause(*(self._consumer.assignment() - set(places)))
        self._consumer.resume(*(self._consumer.paused() & set(places)))

    async def follow(self) -> AsyncIterator[Sequence[Stored]]:
        """What was not read yet and what comes, for ever, in batches; empty ones mark time."""
        self._consumer.resume(*self._consumer.paused())
        while True:
            yield await self._poll()

    async def end(
        self, topics: Collection[Topic] | None = None, partition: int | None = None
    ) -> Mapping[TopicPartition, int]:
        """Where the partitions end by now, for `has_reached`."""
        with self._bus.explained():
            return dict(await self._consumer.end_offsets(self._places(topics, partition)))

    async def has_reached(self, end: Mapping[TopicPartition, int]) -> bool:
        """Whether all before that end was given; what has come since does not matter."""
        return not await self._behind(end)

    async def left(self) -> int:
        """How many offsets are still to be read up to the present end; a few hold no record."""
        with self._bus.explained():
            ends = await self._consumer.end_offsets(list(self._consumer.assignment()))
            return sum(
                [max(0, end - await self._consumer.position(at)) for at, end in ends.items()]
            )

    async def cut(self, partition: int) -> frozenset[Topic]:
        """The topics with a partition whose beginning retention has deleted."""
        with self._bus.explained():
            starts = await self._consumer.beginning_offsets(self._places(None, partition))
        return frozenset(self._topics[at.topic] for at, start in starts.items() if start > 0)

    async def is_cut(self, *topics: Topic) -> bool:
        """Whether retention has deleted records of these topics just before what is read next."""
        places = self._places(topics, None)
        with self._bus.explained():
            starts = await self._consumer.beginning_offsets(places)
            return any([0 < starts[at] == await self._consumer.position(at) for at in places])

    def _places(
        self, topics: Collection[Topic] | None, partition: int | None
    ) -> list[TopicPartition]:
        return [
            at
            for at in self._consumer.assignment()
            if partition in (None, at.partition)
            and (topics is None or self._topics[at.topic] in topics)
        ]

    async def _behind(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        with self._bus.explained():
            return [at for at, end in ends.items() if await self._consumer.position(at) < end]

    async def _poll(self, places: Collection[TopicPartition] = ()) -> list[Stored]:
        with self._bus.explained():
            found = await self._consumer.getmany(
                *places, timeout_ms=_POLL_MS, max_records=BATCH_RECORDS_MAX
            )
        return [
            Stored.of(self._topics[place.topic], record)
            for place, records in found.items()
            for record in records
        ]


@asynccontextmanager
async def reading(
    bus: Bus,
    topics: Collection[Topic],
    *,
    workflow_id: str | None = None,
    from_start: bool = True,
    since: datetime | None = None,
    optional: Collection[Topic] = (),
) -> AsyncIterator[Reader]:
    """A reader of the topics (of a workflow's partitions alone), from retention's start or now.

    With `since` from that moment on, by Kafka's clock. Of `optional` those that are there.

    When the block is entered, the reader is in place. Raises BusUnavailable.
    """
    if optional:
        topics = (*topics, *await bus.present(*optional))
    places = list(await bus.places_of(*topics))
    if workflow_id is not None:
        homes = (await bus.layout(*topics)).homes(workflow_id)
        places = [place for place in places if place.partition in homes]
    consumer = bus.consumer(
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=_PARTITION_FETCH_BYTES,
        fetch_max_wait_ms=_FETCH_WAIT_MS,
    )
    async with bus.running(consumer):
        consumer.assign(places)
        with bus.explained():
            seek = consumer.seek_to_beginning if from_start else consumer.seek_to_end
            await seek(*places)
            if since is not None:
                await _seek_to(consumer, places, since)
        names = {topic.full_name(bus.prefix): topic for topic in topics}
        yield Reader(bus, consumer, names)


async def _seek_to(
    consumer: RecordConsumer, places: Sequence[TopicPartition], since: datetime
) -> None:
    at_ms = int(since.timestamp() * 1000)
    ends = await consumer.end_offsets(places)  # first: what comes meanwhile is there
    found = await consumer.offsets_for_times(dict.fromkeys(places, at_ms))
    for place in places:
        consumer.seek(place, found[place].offset if found.get(place) else ends[place])
