"""Pages that are much work: one at a time, people by turns, in a thread beside the event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from services.console.access.sessions import Holder


class LongPages:
    """Who asks for many at once waits for each of these, and others for one of them at most."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._turns_of: WeakValueDictionary[Holder, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn_of(self, holder: Holder) -> AsyncIterator[None]:
        """Within this, nothing else is made that waits for a turn."""
        own = self._turns_of.setdefault(holder, asyncio.Lock())
        async with own, self._turn:
            yield
