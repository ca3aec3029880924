"""Requests by the moment at which something is due: a retry, the time of a call, a deadline."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from services.worker.core.request.lane_request import LaneRequest

RELEASED_MAX = 64  # entries of the heap beside as many as there are requests


@dataclass(slots=True)
class TimedRequests:
    """Each has one moment, the last one that was said.

    An entry of the heap counts only while its number is that of its request.
    """

    _heap: list[tuple[datetime, int, LaneRequest]] = field(default_factory=list)
    _held: dict[LaneRequest, int] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, lane_request: LaneRequest, moment: datetime) -> None:
        """In place of a moment that was said before."""
        number = self._held[lane_request] = next(self._numbers)
        heapq.heappush(self._heap, (moment, number, lane_request))
        self._forget_the_released()

    def release(self, lane_request: LaneRequest) -> bool:
        """Hold it no more; False if it was not held."""
        if self._held.pop(lane_request, None) is None:
            return False
        self._forget_the_released()
        return True

    def due(self, now: datetime) -> Iterator[LaneRequest]:
        """Those whose moment has come; they are held no more."""
        while self._heap and self._heap[0][0] <= now:
            _, number, lane_request = heapq.heappop(self._heap)
            if self._held.get(lane_request) == number:  # else it was released before
                del self._held[lane_request]
                yield lane_request

    def next_moment(self) -> datetime | None:
        """When one of them may be due."""
        return self._heap[0][0] if self._heap else None

    def _forget_the_released(self) -> None:
        """Moments may be hours away; what no longer waits for them must not stay in memory."""
        if len(self._heap) > 2 * len(self._held) + RELEASED_MAX:
            self._heap = [entry for entry in self._heap if self._held.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)
