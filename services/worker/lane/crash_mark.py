"""Crash marks: work that may end the process runs alone, under a mark in the ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from answerbus.private.ledger import WorkInProgress
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.lane import Lane


@asynccontextmanager
async def crash_mark(lane: Lane, what: WorkInProgress) -> AsyncIterator[None]:
    """One such thing at a time in a worker: the mark is gone before the next is made.

    So a mark that is found says that the worker ended at just this. A lone call, for which all
    others wait, has its turn before what is to be prepared. Raises LaneLost.
    """
    in_line = nullcontext() if what.what == "call" else lane.context.in_line
    async with in_line, lane.context.watch:
        await _mark(lane, what)
        try:
            yield
        finally:
            if lane.open:  # also where the lane was lost and has new state
                lane.open.lane_state.own_record.watched = None
        await _mark(lane, None)


def preparation(lane_request: LaneRequest) -> WorkInProgress:
    """Its schema is compiled, its prompt built."""
    return WorkInProgress(what="preparation", **lane_request.key._asdict())


def lone_call(lane_request: LaneRequest) -> WorkInProgress:
    """It is called while nothing else is."""
    return WorkInProgress(what="call", **lane_request.key._asdict())


async def _mark(lane: Lane, what: WorkInProgress | None) -> None:
    lane.lane_state.own_record.watched = what
    await lane.opened.prove_ownership(lane.context.clock.now())
