"""The deadlines of the tickets in a queue, by their moment."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from services.worker.core.request.ticket import Stage, Ticket

GONE_MAX = 64  # beside as many as there are tickets


@dataclass(slots=True)
class Deadlines:
    """A ticket stands here once, until its deadline has passed; then it may be added again."""

    _heap: list[tuple[datetime, int, Ticket]] = field(default_factory=list)
    _added: set[Ticket] = field(default_factory=set)  # those in the heap
    _numbers: "count[int]" = field(default_factory=count)

    def add(self, ticket: Ticket) -> None:
        """Look at it when its deadline has passed, also if it has."""
        if ticket in self._added:
            return  # a run is held once for each of its steps
        self._added.add(ticket)
        heapq.heappush(self._heap, (ticket.deadline, next(self._numbers), ticket))

    def passed(self, now: datetime) -> Iterator[Ticket]:
        """Those whose deadline has passed; they stand here no more."""
        while self._heap and self._heap[0][0] <= now:
            ticket = heapq.heappop(self._heap)[2]
            self._added.discard(ticket)
            yield ticket

    def next_moment(self) -> datetime | None:
        """When the first passes."""
        return self._heap[0][0] if self._heap else None

    def forget_the_gone(self, tickets: int) -> None:
        """Deadlines are hours away; requests that are done must not stay in memory till then."""
        if len(self._heap) > 2 * tickets + GONE_MAX:
            self._heap = [entry for entry in self._heap if entry[2].stage is not Stage.GONE]
            heapq.heapify(self._heap)
            self._added = {entry[2] for entry in self._heap}
