"""The deadlines of the requests in a queue, by their moment."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.request.life import RequestState

GONE_MAX = 64  # beside as many as there are requests


@dataclass(slots=True)
class Deadlines:
    """A request stands here once, until its deadline has passed; then it may be added again."""

    _heap: list[tuple[datetime, int, LaneRequest]] = field(default_factory=list)
    _added: set[LaneRequest] = field(default_factory=set)  # those in the heap
    _numbers: "count[int]" = field(default_factory=count)

    def add(self, lane_request: LaneRequest) -> None:
        """Look at it when its deadline has passed, also if it has."""
        if lane_request in self._added:
            return  # a run is held once for each of its steps
        self._added.add(lane_request)
        heapq.heappush(self._heap, (lane_request.deadline, next(self._numbers), lane_request))

    def passed(self, now: datetime) -> Iterator[LaneRequest]:
        """Those whose deadline has passed; they stand here no more."""
        while self._heap and self._heap[0][0] <= now:
            lane_request = heapq.heappop(self._heap)[2]
            self._added.discard(lane_request)
            yield lane_request

    def next_moment(self) -> datetime | None:
        """When the first passes."""
        return self._heap[0][0] if self._heap else None

    def forget_the_gone(self, lane_requests: int) -> None:
        """Deadlines are hours away; requests that are done must not stay in memory till then."""
        if len(self._heap) > 2 * lane_requests + GONE_MAX:
            self._heap = [entry for entry in self._heap if entry[2].state is not RequestState.DONE]
            heapq.heapify(self._heap)
            self._added = {entry[2] for entry in self._heap}
