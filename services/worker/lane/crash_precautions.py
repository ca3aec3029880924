"""Precautions for a request that may end its worker: marks, isolated calls, and a dead letter.

Most requests are under no suspicion; for them all this comes to nothing.
"""

from answerbus.dead_letter import Cause, CrashedWorker, DeadlinePassed
from services.worker.core.attempt.plan import Plan
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.crash_mark import crash_mark, preparation
from services.worker.lane.lane import Lane
from services.worker.lane.next_profile import Prepared, plan_of
from services.worker.limits.isolation import SHARED, IsolationLevel


def cause_without_preparation(lane: Lane, lane_request: LaneRequest) -> Cause | None:
    """Why it ends without a look at what it asks, if it does."""
    if lane_request.cancelled:
        return lane_request.cancelled
    suspects, name = lane.lane_state.suspects, lane_request.key
    if crashes := suspects.given_up(name):
        return CrashedWorker(openings=crashes)
    waits_for_tools = lane_request.run is not None and bool(lane_request.run.open)
    if (suspects.is_held(name) or waits_for_tools) and lane.seconds_left(lane_request) <= 0:
        return DeadlinePassed()
    return None


async def prepare(lane: Lane, lane_request: LaneRequest) -> Prepared:
    """How it will be asked; where it may end the worker to find that out, under a mark."""
    request = lane_request.request
    is_held = lane.lane_state.suspects.is_held(lane_request.key)
    if not lane.opened.is_careful and not is_held:
        return await plan_of(lane, lane_request)
    async with crash_mark(lane, preparation(lane_request)):
        plan = await plan_of(lane, lane_request)
        if isinstance(plan, Plan):
            plan.prompt(request, lane_request.progress.prior)
        return plan


def isolation_level(lane: Lane, lane_request: LaneRequest) -> IsolationLevel:
    """Which calls may run beside its own: for a suspect no other lane's, and at last none."""
    if lane_request not in lane.isolated:
        return SHARED
    suspects, name = lane.lane_state.suspects, lane_request.key
    alone = len(lane.isolated) == 1 and suspects.needs_all(name)
    return IsolationLevel(lane=lane.partition, alone=alone, rank=suspects.rank(name))
