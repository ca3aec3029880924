"""The waits of requests before their call; a person's cancellation ends each early."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.worker.core.request.ticket import Ticket


class Waits:
    """The waits of a lane's tasks, one at a time for each ticket."""

    def __init__(self) -> None:
        self._limits: dict[Ticket, asyncio.Timeout] = {}

    @asynccontextmanager
    async def limit(self, ticket: Ticket, limit_s: float | None) -> AsyncIterator[None]:
        """A wait of at most so long; raises TimeoutError then, and once `end` is called."""
        async with asyncio.timeout(0.0 if ticket.cancelled else limit_s) as limit:
            self._limits[ticket] = limit
            try:
                yield
            finally:
                del self._limits[ticket]

    def end(self, ticket: Ticket) -> None:
        """End the wait of a ticket, if it has one."""
        limit = self._limits.get(ticket)
        if limit and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())
