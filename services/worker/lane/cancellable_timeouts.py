"""The waits of requests before their call; a person's cancellation ends each early."""

import asyncio
from types import TracebackType

from services.worker.core.request.lane_request import LaneRequest

Limits = dict[LaneRequest, asyncio.Timeout]


class Waits:
    """The waits of a lane's tasks, one at a time for each request."""

    def __init__(self) -> None:
        self._limits: Limits = {}

    def limit(self, lane_request: LaneRequest, limit_s: float | None) -> "RequestWait":
        """A wait of at most so long; raises TimeoutError then, and once `end` is called."""
        return RequestWait(self._limits, lane_request, 0.0 if lane_request.cancelled else limit_s)

    def end(self, lane_request: LaneRequest) -> None:
        """End the wait of a request, if it has one."""
        if limit := self._limits.get(lane_request):
            _end(limit)


class RequestWait:
    """One of them, while it is entered."""

    def __init__(self, limits: Limits, lane_request: LaneRequest, limit_s: float | None) -> None:
        self._limits, self._lane_request = limits, lane_request
        self._limit = asyncio.timeout(limit_s)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._limits[self._lane_request] = self._limit

    def end(self) -> None:
        """See Waits.end."""
        _end(self._limit)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del self._limits[self._lane_request]
        await self._limit.__aexit__(kind, error, trace)


def _end(limit: asyncio.Timeout) -> None:
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time())
