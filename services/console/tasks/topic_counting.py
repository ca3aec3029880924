"""Counts the records of topics that the pages show nothing else of: those of tools and runs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.topics import Topic
from services.console.state.topic_counts import TopicCounts
from services.console.tasks.feed import FOLDED_TOPICS
from services.console.views.units import KEPT_MINUTES
from services.operators.adapters.reader import reading
from services.operators.records.stored import Stored

LOOK_EVERY_S = 60.0  # for topics that were made since, such as those of a new toolset

_log = logging.getLogger(__name__)


class TopicCounter:
    """`counts` are of `topics`; they are kept apart, since nothing else depends on them."""

    def __init__(self, bus: Bus, now: Callable[[], float]) -> None:
        self._bus, self._now = bus, now
        self.counts, self.topics = TopicCounts(), frozenset[Topic]()

    async def run(self) -> None:
        """Count until cancelled. What may not be read is not counted, and the log says so."""
        while True:
            try:
                await self._count()
            except BusUnavailable as error:
                _log.info("records of tools and runs are not counted: %s", error)
                self.topics = frozenset()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _count(self) -> None:
        """Of the last 24 hours and from now on; until there are other topics."""
        topics = await self._others()
        if not topics:
            return
        since = datetime.fromtimestamp(self._now(), UTC) - timedelta(minutes=KEPT_MINUTES)
        async with reading(self._bus, topics, since=since) as reader:
            counts, looked = TopicCounts(), self._now()
            async for batch in reader.to_end():
                await _take(counts, batch)
            self.counts, self.topics = counts, topics
            async for batch in reader.follow():
                await _take(counts, batch)
                if self._now() - looked > LOOK_EVERY_S:
                    if await self._others() != topics:
                        return
                    looked = self._now()

    async def _others(self) -> frozenset[Topic]:
        return frozenset(await self._bus.deployed()).difference(FOLDED_TOPICS)


async def _take(counts: TopicCounts, batch: Sequence[Stored]) -> None:
    for stored in batch:
        counts.take(stored)
    await asyncio.sleep(0)  # let the pages in
