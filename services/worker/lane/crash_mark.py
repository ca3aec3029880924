"""What may end the process is done by itself, under a mark in the ledger that says what it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from answerbus.ledger import Watched
from services.worker.core.ticket import Ticket
from services.worker.lane.lane import Lane
from services.worker.lane.outbox import LaneLost


@asynccontextmanager
async def crash_mark(lane: Lane, what: Watched) -> AsyncIterator[None]:
    """One such thing at a time in a worker: the mark is gone before the next is made.

    So a mark that is found says that the worker ended at just this. Raises LaneLost.
    """
    async with lane.context.watch:
        await _mark(lane, what)
        try:
            yield
        finally:
            lane.lane_state.watched = None  # also where the lane is lost and has new state
        await _mark(lane, None)


def preparation(ticket: Ticket) -> Watched:
    """Its schema is compiled, its prompt built."""
    return Watched(what="preparation", request_id=ticket.request.request_id)


def lone_call(ticket: Ticket) -> Watched:
    """It is called while nothing else is."""
    return Watched(what="call", request_id=ticket.request.request_id)


async def _mark(lane: Lane, what: Watched | None) -> None:
    if lane.outbox is None:
        raise LaneLost
    lane.lane_state.watched = what
    mark = lane.lane_state.ownership_record(lane.context.clock.now())
    await lane.outbox.put(mark.records, mark.offset)
