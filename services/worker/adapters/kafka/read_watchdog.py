"""Ends a stalled reading of a lane's past, and reports the progress of a slow one."""

import asyncio
import logging
from collections.abc import Mapping

from answerbus.topics import Topic
from services.worker.ports import ReadProgress

NO_PROGRESS_S = 30.0  # a reading that goes on may last; what it has read is not lost with it
TELL_EVERY_S = 10.0

_log = logging.getLogger(__name__)


class ReadWatchdog:
    """Of one reading."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._moved_at = self._told_at = asyncio.get_running_loop().time()

    def check(self, before: ReadProgress, positions: Mapping[Topic, int]) -> None:
        """Raises TimeoutError."""
        now = asyncio.get_running_loop().time()
        if positions != before.positions:
            self._moved_at = now
        if now - self._moved_at > NO_PROGRESS_S:
            raise TimeoutError(f"Kafka gave no record for {NO_PROGRESS_S:.0f} s; {before}")
        if now - self._told_at > TELL_EVERY_S:
            self._told_at = now
            _log.info("lane %d opens: %s", self._partition, before)
