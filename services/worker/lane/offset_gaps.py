"""Gaps in delivered offsets: from transaction markers, or from retention, which is reported."""

import asyncio
import logging
from contextlib import suppress

from services.worker.ports.kafka import Intake
from services.worker.ports.observer import WorkerCounters

LOOK_EVERY_S = 5.0  # an upstream that uses transactions leaves a hole after each of them

_log = logging.getLogger(__name__)


class OffsetGaps:
    """Asks the broker, now and then and in the background, what is behind the holes of one lane."""

    def __init__(self, partition: int, intake: Intake, counters: WorkerCounters) -> None:
        self._partition, self._intake, self._tally = partition, intake, counters
        self._seen: list[tuple[int, int]] = []
        self._looking: asyncio.Task[None] | None = None

    def record(self, first: int, following: int) -> None:
        """Offsets from `first` up to `following` were never delivered."""
        self._seen.append((first, following))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    def report(self, first: int, following: int, earliest: int) -> None:
        """Report those that retention deleted: `earliest` is the first offset that there is."""
        deleted = min(following, earliest) - first
        if deleted <= 0:
            return
        self._tally.lost_to_retention += deleted
        _log.error(
            "lane %d: offsets %d to %d were deleted before they were read; lengthen the retention "
            "of the requests topic or add workers",
            self._partition,
            first,
            first + deleted - 1,
        )

    def close(self) -> None:
        """End the check that is under way."""
        if self._looking:
            self._looking.cancel()

    async def _look(self) -> None:
        while self._seen:
            with suppress(Exception):  # the broker is away; it will be asked again
                _, earliest = await self._intake.start_offset()
                seen, self._seen = self._seen, []
                for first, following in seen:
                    self.report(first, following, earliest)
            await asyncio.sleep(LOOK_EVERY_S)
