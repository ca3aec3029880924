"""The next prompt of a request: the request as it is, or the next step of its run."""

from contextlib import suppress
from functools import partial

from answerbus.dead_letter import (
    Cause,
    DeadlinePassed,
    MissingTools,
    UnknownParent,
    UnverifiedSteps,
)
from services.worker.core.attempt.plan import Plan
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.composition import ComputedStep, FreeBudget
from services.worker.core.run.delegation import depth_of, within
from services.worker.core.run.run import Run
from services.worker.lane.lane import Lane
from services.worker.planning.compositions import compose

Prepared = Plan | Cause | ComputedStep


async def plan_of(lane: Lane, lane_request: LaneRequest) -> Prepared:
    """A run begins here, with the definition that it keeps from its first step on."""
    planner, request = lane.context.planner, lane_request.request
    above = lane.lane_state.queue.children.parent_of(lane_request)
    if request.parent and above is None:
        return UnknownParent()
    prepared = await planner.prepare(request)
    if request.agent is None:
        return planner.plan(request, prepared)
    run = lane_request.run or await _new_run(lane, lane_request)
    above = lane.lane_state.queue.children.parent_of(lane_request)  # it may have ended meanwhile
    if not isinstance(run, Run):
        return run
    if above is not None and above.run is not None:
        run = within(run, above.run, depth_of(request))
    lane_request.change_run(run)
    composed = await compose(planner, request, run, partial(_free_budget, lane, lane_request))
    if composed is not None:
        return composed
    is_last = lane.lane_state.is_last_attempt(lane_request, lane.context.clock.now())
    return await planner.plan_step(request, run, is_last_attempt=is_last)


def _free_budget(lane: Lane, lane_request: LaneRequest) -> FreeBudget:
    account = lane.lane_state.ledger.account(lane_request.request, lane.context.clock.now())
    return lane.lane_state.queue.children.free_budget(lane_request, account)


async def _new_run(lane: Lane, lane_request: LaneRequest) -> Run | Cause:
    fault = await _unproved(lane, lane_request) if lane_request.request.resumed else None
    return fault or await _begun(lane, lane_request)


async def _unproved(lane: Lane, lane_request: LaneRequest) -> Cause | None:
    """Why a run cannot go on from the steps in its request: any publisher can write some there."""
    seconds_left = lane_request.seconds_left(lane.context.clock.now())
    try:
        async with lane.waits.limit(lane_request, seconds_left):
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
        async with lane.waits.limit(
            lane_request, lane_request.seconds_left(lane.context.clock.now())
        ):
            await planner.catch_up()
    return lane_request.cancelled or planner.begin_run(lane_request.request)
