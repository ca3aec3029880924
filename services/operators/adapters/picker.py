"""Reads single records again by their positions."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate

from aiokafka import TopicPartition

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.topics import APPROVALS, CONTROLS, STEPS, TOPICS, Topic
from services.operators.records.stored import RecordPosition, Stored

PICK_TIMEOUT_S = 10.0
_POLL_MS = 500
_BATCH_RECORDS = 100
_NEAR_RECORDS = 200  # what is no further ahead is read over rather than jumped to
_FETCH_WAIT_MS = 50  # how long a fetch that finds nothing may hold up the next one


class Picker:
    """One connection, used by one at a time; partitions are paused while they are not read."""

    def __init__(self, bus: Bus, consumer: RecordConsumer) -> None:
        self._bus, self._consumer = bus, consumer
        self._turn, self._in_use = asyncio.Lock(), asyncio.Lock()

    async def pick(self, place: RecordPosition) -> Stored | None:
        """The record at this offset; None if retention has deleted it. Raises BusUnavailable."""
        found = await self.pick_all([place])
        return found[0] if found else None

    async def pick_all(
        self, places: Iterable[RecordPosition], bytes_max: int | None = None
    ) -> list[Stored]:
        """The records that are still there, in the order that was asked for.

        With `bytes_max` the newest of them, as many as have no more bytes than that. Partitions are
        read side by side. Raises BusUnavailable.
        """
        asked = list(places)
        wanted: dict[TopicPartition, list[RecordPosition]] = {}
        for place in sorted(set(asked), key=lambda place: place.offset):
            at = self._bus.place(place.topic, place.partition)
            if at in self._consumer.assignment():  # a header may name any partition
                wanted.setdefault(at, []).append(place)
        async with self._turn:
            with self._bus.explained():
                found = await bounded(self._pick_alone(wanted, bytes_max), PICK_TIMEOUT_S)
        return [found[place] for place in asked if place in found]

    async def _pick_alone(
        self, places: Mapping[TopicPartition, list[RecordPosition]], bytes_max: int | None
    ) -> dict[RecordPosition, Stored]:
        """A pick that was left behind keeps the consumer until it has ended."""
        async with self._in_use:
            try:
                return await self._pick(places, bytes_max)
            finally:
                self._consumer.pause(*places)

    async def _pick(
        self, wanted: Mapping[TopicPartition, list[RecordPosition]], bytes_max: int | None
    ) -> dict[RecordPosition, Stored]:
        starts = await self._consumer.beginning_offsets(list(wanted))
        ends = await self._consumer.end_offsets(list(wanted))
        left = {
            at: deque(place for place in places if starts[at] <= place.offset < ends[at])
            for at, places in wanted.items()
        }
        found: dict[RecordPosition, Stored] = {}
        left = {at: places for at, places in left.items() if places}
        for at, places in left.items():
            self._consumer.seek(at, places[0].offset)
        self._consumer.resume(*left)
        while left:
            batches = await self._consumer.getmany(
                *left, timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS
            )
            for at, records in batches.items():
                _take(records, left[at], found)
            if bytes_max is not None:
                found = {one.place: one for one in newest_within(bytes_max, found.values())}
            left = {at: places for at, places in left.items() if await self._go_on(at, places)}
        return found

    async def _go_on(self, at: TopicPartition, places: deque[RecordPosition]) -> bool:
        """Whether something is still wanted of a partition; what is far ahead is jumped to."""
        position = await self._consumer.position(at)
        while places and places[0].offset < position:
            places.popleft()  # no record was there, but the end of a transaction
        if places and places[0].offset - position > _NEAR_RECORDS:
            self._consumer.seek(at, places[0].offset)
        return bool(places)


def _take(
    records: Sequence[Record], places: deque[RecordPosition], found: dict[RecordPosition, Stored]
) -> None:
    for record in records:
        while places and places[0].offset < record.offset:
            places.popleft()
        if places and places[0].offset == record.offset:
            place = places.popleft()
            found[place] = Stored.of(place.topic, record)


def newest_within(bytes_max: int, records: Iterable[Stored]) -> list[Stored]:
    """Of the records the newest, as many as have no more bytes together."""
    newest_first = sorted(records, key=lambda one: one.at_ms, reverse=True)
    sizes = accumulate(one.size for one in newest_first)
    return newest_first[: bisect_right(list(sizes), bytes_max)]


@asynccontextmanager
async def picking(bus: Bus, topics: Collection[Topic] | None = None) -> AsyncIterator[Picker]:
    """A picker of these topics, or of all that lists show. Raises BusUnavailable."""
    if topics is None:
        topics = (*TOPICS, *await bus.present(STEPS, APPROVALS, CONTROLS))
    everything = await bus.places_of(*topics)
    consumer = bus.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=_FETCH_WAIT_MS)
    async with bus.running(consumer):
        consumer.assign(list(everything))
        consumer.pause(*everything)
        yield Picker(bus, consumer)
