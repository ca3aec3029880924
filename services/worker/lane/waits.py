"""The waits of requests before their call; a person's cancellation ends each early."""

import asyncio
from types import TracebackType

from services.worker.core.request.ticket import Ticket

Limits = dict[Ticket, asyncio.Timeout]


class Waits:
    """The waits of a lane's tasks, one at a time for each ticket."""

    def __init__(self) -> None:
        self._limits: Limits = {}

    def limit(self, ticket: Ticket, limit_s: float | None) -> "TicketWait":
        """A wait of at most so long; raises TimeoutError then, and once `end` is called."""
        return TicketWait(self._limits, ticket, 0.0 if ticket.cancelled else limit_s)

    def end(self, ticket: Ticket) -> None:
        """End the wait of a ticket, if it has one."""
        limit = self._limits.get(ticket)
        if limit and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())


class TicketWait:
    """One of them, while it is entered."""

    def __init__(self, limits: Limits, ticket: Ticket, limit_s: float | None) -> None:
        self._limits, self._ticket = limits, ticket
        self._limit = asyncio.timeout(limit_s)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._limits[self._ticket] = self._limit

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del self._limits[self._ticket]
        await self._limit.__aexit__(kind, error, trace)
