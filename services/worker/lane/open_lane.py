"""What only a lane with a producer has."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from services.worker.lane.books import Books
from services.worker.lane.outbox import Outbox
from services.worker.lane.taking_in import Writing


@dataclass(slots=True)
class OpenLane:
    """What was read at its opening and what it has become since, and the producer that writes it.

    `is_careful`: what may end the worker is marked before it is done (lane/watch.py).
    """

    books: Books
    outbox: Outbox
    is_careful: bool
    calm_at: float  # loop time
    trials_from: float  # loop time

    def put(self, writing: Writing) -> "asyncio.Future[float]":
        """Queue a write; see Outbox.put."""
        return self.outbox.put(writing.records, writing.offset)

    def show_presence(self, now: datetime) -> "asyncio.Future[float]":
        """Write what only the rightful owner of the partition can. Raises LaneLost."""
        return self.put(self.books.presence(now))

    @property
    def failed_openings(self) -> int:
        """Since the lane last got anything done."""
        record = self.books.ledger.lane
        return record.openings_without_progress if record else 0
