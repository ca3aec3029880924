"""Requests by the moment at which something is due: a retry, the time of a call, a deadline."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from services.worker.core.request.lane_request import LaneRequest

RELEASED_MAX = 64  # moments in the heap beside as many as there are requests


@dataclass(slots=True)
class TimedRequests:
    """Each has one moment, the last one that was said.

    The heap knows requests by numbers alone: a moment may be hours away, and what no longer waits
    for it must not stay in memory with all that it asks.
    """

    _heap: list[tuple[datetime, int]] = field(default_factory=list)
    _held: dict[LaneRequest, int] = field(default_factory=dict)
    _by_number: dict[int, LaneRequest] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, lane_request: LaneRequest, moment: datetime) -> None:
        """In place of a moment that was said before."""
        self._by_number.pop(self._held.get(lane_request, -1), None)
        number = self._held[lane_request] = next(self._numbers)
        self._by_number[number] = lane_request
        heapq.heappush(self._heap, (moment, number))
        self._forget_the_released()

    def release(self, lane_request: LaneRequest) -> bool:
        """Hold it no more; False if it was not held."""
        number = self._held.pop(lane_request, None)
        if number is None:
            return False
        del self._by_number[number]
        self._forget_the_released()
        return True

    def due(self, now: datetime) -> Iterator[LaneRequest]:
        """Those whose moment has come; they are held no more."""
        while self._heap and self._heap[0][0] <= now:
            _, number = heapq.heappop(self._heap)
            lane_request = self._by_number.pop(number, None)
            if lane_request is not None:  # else it was released before
                del self._held[lane_request]
                yield lane_request

    def next_moment(self) -> datetime | None:
        """When one of them may be due."""
        return self._heap[0][0] if self._heap else None

    def _forget_the_released(self) -> None:
        if len(self._heap) > 2 * len(self._held) + RELEASED_MAX:
            self._heap = [entry for entry in self._heap if entry[1] in self._by_number]
            heapq.heapify(self._heap)
