"""Asks the broker now and then where partitions end: whether it answers at all, and the lag."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

PROBE_EVERY_S = 2.0

_log = logging.getLogger(__name__)


class Probe:
    """`ends` are the last ones known; `heard_at` is when the broker last answered, in loop time."""

    def __init__(self, ask: Callable[[], Awaitable[Mapping[int, int]]]) -> None:
        self.ends: Mapping[int, int] = {}
        self.heard_at: float = asyncio.get_running_loop().time()
        self._ask = ask

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            try:
                self.ends = await self._ask()
                self.heard_at = asyncio.get_running_loop().time()
            except Exception as error:
                _log.debug("the broker did not say where partitions end: %s", type(error).__name__)
            await asyncio.sleep(PROBE_EVERY_S)

    @property
    def silent_s(self) -> float:
        """Since the broker last answered."""
        return asyncio.get_running_loop().time() - self.heard_at
