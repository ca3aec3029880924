"""Admits records one at a time, each under a crash mark, where one of them may end the worker."""

import asyncio
import logging
from collections.abc import Callable

from answerbus.private.ledger import WorkInProgress
from services.worker.core.request.admit import Arrival
from services.worker.lane.crash_mark import crash_mark
from services.worker.lane.lane import Lane
from services.worker.lane.state.machine import State
from services.worker.lane.state.record_admission import give_up_record
from services.worker.ports.lane import LaneLost

_log = logging.getLogger(__name__)


def must_be_read_alone(lane: Lane) -> bool:
    """Whether the records of the lane are to be taken in by `read_alone`."""
    open_lane = lane.open
    if lane.state is not State.OPEN or open_lane is None:
        return False
    return open_lane.is_careful or open_lane.lane_state.suspects.record is not None


def read_alone(
    lane: Lane, offset: int, read: Callable[[], Arrival], bare: Callable[[], Arrival]
) -> None:
    """Take one record in, in the background; those behind it come again.

    `read` gives the record as it is understood, `bare` without a look at what it holds.
    """
    lane.backpressure.pause()  # again, where a rebalance has resumed it: what follows is not read
    if lane.reading is None or lane.reading.done():
        lane.reading = asyncio.create_task(_read(lane, offset, read, bare))


async def _read(
    lane: Lane, offset: int, read: Callable[[], Arrival], bare: Callable[[], Arrival]
) -> None:
    what = WorkInProgress(what="record", offset=offset)
    try:
        open_lane, suspects = lane.opened, lane.lane_state.suspects
        crashes = suspects.record_given_up(offset)
        if crashes is not None:
            _give_up(lane, bare(), crashes)
        else:
            if suspects.record and suspects.record.offset == offset:
                await asyncio.sleep(open_lane.trials_from - asyncio.get_running_loop().time())
            async with crash_mark(lane, what):
                lane.deliver([read()])
                if lane.lane_state.watermark.position > offset:
                    suspects.pass_record(offset)
    except LaneLost:
        return  # it comes again when the lane is open again
    except Exception as error:
        _log.exception("admitting a record of lane %d failed", lane.partition)
        lane.fail_at(what, error)
        return
    if lane.state is State.OPEN:
        lane.backpressure.resume_at(lane.lane_state.watermark.position)
        lane.pump()


def _give_up(lane: Lane, arrival: Arrival, crashes: int) -> None:
    writing = give_up_record(lane.lane_state, arrival, crashes, lane.context.clock.now())
    if writing:
        lane.opened.put(writing)
        _log.warning(
            "gave up the record at offset %d of lane %d", arrival.place.offset, lane.partition
        )
