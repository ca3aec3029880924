"""Asks the broker regularly for the ends of partitions: whether it answers, and the lag."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from answerbus.client.bounded import was_cancelled
from answerbus.client.diagnosis import describe_error
from services.worker.adapters.kafka.read_monitor import TopicMissing
from services.worker.tasks.rounds import rounds

PROBE_EVERY_S = 2.0

_log = logging.getLogger(__name__)


class Probe:
    """`ends` are the last ones known; `answered_at` is when the broker last answered, in loop time.

    `diagnose` says why it refuses clients, or None if it merely does not answer.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Mapping[int, int]]],
        diagnose: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        self.ends: Mapping[int, int] = {}
        self.answered_at: float = asyncio.get_running_loop().time()
        self.missing: str | None = None  # Kafka answers that there is no such topic
        self.trouble: str | None = None  # why the last question was not answered
        self._ask, self._diagnose = ask, diagnose

    async def run(self) -> None:
        await rounds("the question where partitions end", self._round, PROBE_EVERY_S)

    async def _round(self) -> None:
        try:
            self.ends = await self._ask()
            self._answered(None)
        except TopicMissing as error:
            self._answered(str(error))
        except BaseException as error:
            if was_cancelled(error):
                raise
            self.trouble = describe_error(error)
            if self._diagnose:
                self.trouble = await self._diagnose() or self.trouble
            _log.debug("the broker did not say where partitions end: %s", self.trouble)

    def _answered(self, missing: str | None) -> None:
        self.answered_at, self.missing = asyncio.get_running_loop().time(), missing
        self.trouble = None

    @property
    def silent_s(self) -> float:
        return asyncio.get_running_loop().time() - self.answered_at
