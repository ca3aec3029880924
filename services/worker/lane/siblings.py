"""Coordinates the processes of one command at start: no lane opens before all have their share.

The first to join the group has all partitions for a moment. The calls that it began for those that
the others then get would have to end there before the others could begin.
"""

import asyncio
from typing import Any

JOIN_S_MAX = 15.0  # for all to join; then each goes on with what it has
LOOK_EVERY_S = 0.05


class Siblings:
    """The state of the other processes; `joined` is a counter in memory that all of them share.

    `settled` is set once all have joined; for a single process it is set from the start.
    """

    def __init__(self, count: int = 0, joined: Any = None) -> None:
        self.settled = asyncio.Event()
        self._count, self._joined = count, joined
        self._has_joined = False
        if not count:
            self.settled.set()

    def has_share(self) -> None:
        """The process was assigned its partitions, maybe none: it is a member of the group."""
        if self._count and not self._has_joined:
            self._has_joined = True
            with self._joined.get_lock():
                self._joined.value += 1

    async def settle(self) -> None:
        """Wait until all have joined, for a limited time."""
        try:
            async with asyncio.timeout(JOIN_S_MAX):
                while self._count and self._joined.value < self._count:
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            return  # one has not come up; when it does, the group shares its partitions out again
        finally:
            self.settled.set()
