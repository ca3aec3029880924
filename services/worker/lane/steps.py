"""The next prompt of a request: the request as it is, or the next step of its run."""

from contextlib import suppress

from answerbus.dead_letter import (
    Cause,
    DeadlinePassed,
    MissingTools,
    UnknownParent,
    UnverifiedSteps,
)
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.delegation import depth_of, within
from services.worker.core.run.run import Run
from services.worker.lane.lane import Lane
from services.worker.lane.next_profile import Prepared, next_plan


async def plan_of(lane: Lane, lane_request: LaneRequest) -> Prepared:
    """A run begins here, with the definition that it keeps from its first step on."""
    request, children = lane_request.request, lane.lane_state.queue.children
    if request.parent and children.parent_of(lane_request) is None:
        return UnknownParent()
    if request.agent is not None:
        await lane.context.planner.prepare(request)
        run = lane_request.run or await _new_run(lane, lane_request)
        above = lane.lane_state.queue.children.parent_of(lane_request)  # it may have ended since
        if not isinstance(run, Run):
            return run
        if above is not None and above.run is not None:
            run = within(run, above.run, depth_of(request))
        lane_request.change_run(run)
    return await next_plan(lane, lane_request)


async def _new_run(lane: Lane, lane_request: LaneRequest) -> Run | Cause:
    fault = await _unproved(lane, lane_request) if lane_request.request.resumed else None
    return fault or await _begun(lane, lane_request)


async def _unproved(lane: Lane, lane_request: LaneRequest) -> Cause | None:
    """Why a run cannot go on from the steps in its request: any publisher can write some there."""
    try:
        async with lane.waits.limit(lane_request, lane.seconds_left(lane_request)):
            is_resumed = await lane.context.runs.is_resumed(
                lane_request.request, lane_request.origin
            )
    except TimeoutError:
        return lane_request.cancelled or DeadlinePassed()
    return None if is_resumed else UnverifiedSteps()


async def _begun(lane: Lane, lane_request: LaneRequest) -> Run | Cause:
    """Its tools may have been announced just before it was published, and not be heard of yet."""
    planner = lane.context.planner
    found = planner.begin_run(lane_request.request)
    if not isinstance(found, MissingTools):
        return found
    with suppress(TimeoutError):  # its time is over, or it was cancelled
        async with lane.waits.limit(lane_request, lane.seconds_left(lane_request)):
            await planner.catch_up()
    return lane_request.cancelled or planner.begin_run(lane_request.request)
