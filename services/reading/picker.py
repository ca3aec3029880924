"""Single records, read again from where they stand."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer

from answerbus.client.bus import Bus
from services.reading.stored import Place, Stored

PICK_TIMEOUT_S = 10.0
_POLL_MS = 500


class Picker:
    """One connection, used by one at a time."""

    def __init__(self, bus: Bus, consumer: AIOKafkaConsumer) -> None:
        self._bus, self._consumer = bus, consumer
        self._turn = asyncio.Lock()

    async def pick(self, place: Place) -> Stored | None:
        """The record at this offset; None if retention has deleted it. Raises BusUnavailable."""
        async with self._turn:
            with self._bus.explained():
                async with asyncio.timeout(PICK_TIMEOUT_S):
                    return await self._pick(place)

    async def pick_all(self, places: Iterable[Place]) -> list[Stored]:
        """The records that are still there, in the order that was asked for."""
        found = [await self.pick(place) for place in places]
        return [stored for stored in found if stored is not None]

    async def _pick(self, place: Place) -> Stored | None:
        at = self._bus.place(place.topic, place.partition)
        if at not in self._consumer.assignment():
            self._consumer.assign([at])
        starts = await self._consumer.beginning_offsets([at])
        ends = await self._consumer.end_offsets([at])
        if not starts[at] <= place.offset < ends[at]:
            return None
        self._consumer.seek(at, place.offset)
        while await self._consumer.position(at) <= place.offset:
            found = await self._consumer.getmany(at, timeout_ms=_POLL_MS, max_records=1)
            for record in found.get(at, ()):
                return Stored.of(place.topic, record) if record.offset == place.offset else None
        return None


@asynccontextmanager
async def picking(bus: Bus) -> AsyncIterator[Picker]:
    """A picker. Raises BusUnavailable."""
    consumer = bus.consumer(auto_offset_reset="earliest")
    async with bus.running(consumer):
        yield Picker(bus, consumer)
