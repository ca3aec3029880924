"""Reads the topic of comparisons for pages, which wait for their turn."""

import asyncio
from collections.abc import AsyncIterator, Callable

from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.envelope import decode
from answerbus.topics import COMPARISONS
from services.operators.adapters.reader import reading
from services.operators.records.stored import Stored

READ_S = 20.0  # for a page, with the wait for others


class ComparisonReader:
    """One reading at a time, and each bounded."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._turn = bus, asyncio.Lock()

    async def read(self, take: Callable[[Compared, int], None], name: str | None = None) -> None:
        """Give all records that are kept, or those of one comparison, with Kafka's times.

        Raises BusUnavailable, and TimeoutError where it takes too long.
        """
        named = (name or "").encode()
        async with asyncio.timeout(READ_S), self._turn:
            async for stored in self._records():
                if named not in (stored.value or b""):  # to read it whole takes much longer
                    continue
                event = decode(stored.value, stored.headers)
                if isinstance(event, Compared) and name in (None, event.comparison):
                    take(event, stored.at_ms)

    async def _records(self) -> AsyncIterator[Stored]:
        if not await self._bus.present(COMPARISONS):
            return
        async with reading(self._bus, (COMPARISONS,)) as reader:
            async for stored in reader.records():
                yield stored
