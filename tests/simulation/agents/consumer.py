"""The consumer of what is said to runs: by assignment, and woken by what it waits for."""

import asyncio
from contextlib import suppress
from typing import Any

from tests.simulation.consumer import Found, SimReader


class SignalConsumer(SimReader):
    """See run_reader.RunConsumer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._grown = asyncio.Event()
        self._cluster.watchers.append(self._on_growth)

    async def getmany(self, *, timeout_ms: int = 0, max_records: int = 500) -> Found:
        """Asks once something has come: that spares the loop the idle polls of a real one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._grown.wait()
        self._grown.clear()
        found = await self._cluster.ask(self._fetch)
        return {place: records[:max_records] for place, records in found.items()}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(100))  # of each topic as many as there are lanes, or more

    def seek(self, place: Any, offset: int) -> None:
        super().seek(place, offset)
        self._grown.set()

    async def stop(self) -> None:
        self._cluster.watchers.remove(self._on_growth)

    def _on_growth(self, topic: str) -> None:
        if topic in {place.topic for place in self._positions}:
            self._grown.set()
