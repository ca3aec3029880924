"""Why a lane does not go on, in one sentence for an operator; None if it does, or has no work.

A provider that is away is not a fault of a lane: profile_problem.py names it, once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.context import LaneContext
from services.worker.lane.lane import Lane
from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.opening import OPENINGS_BEFORE_CARE
from services.worker.lane.outbox import COMMIT_TIMEOUT_S
from services.worker.lane.request_task import PERMIT_S
from services.worker.lane.state.machine import State
from services.worker.tasks.loop_time import loop_time

# So much later than its timeout a call is settled at the latest: its spend and its outcome each
# wait for a commit under way, the call begins within PERMIT_S, and the outcome is committed.
OVERDUE_S = PERMIT_S + 3 * COMMIT_TIMEOUT_S


@dataclass(slots=True)
class WaitingRequests:
    """Of one profile; `since` is when the oldest was published."""

    count: int
    since: datetime


def waiting_requests(lanes: Iterable[Lane]) -> dict[str, WaitingRequests]:
    """By profile: all requests that open lanes hold."""
    found: dict[str, WaitingRequests] = {}
    for lane in lanes:
        if lane.state is not State.OPEN:
            continue
        for lane_request in lane.lane_state.queue.requests.values():
            profile, at = lane_request.request.profile, lane_request.origin.timestamp
            known = found.setdefault(profile, WaitingRequests(0, at))
            known.count += 1
            known.since = min(known.since, at)
    return found


def oldest_requests(lanes: Iterable[Lane]) -> dict[int, LaneRequest]:
    """By partition, of lanes that are open and not empty."""
    return {
        lane.partition: next(iter(lane.lane_state.queue.requests.values()))
        for lane in lanes
        if lane.state is State.OPEN and lane.lane_state.queue.requests
    }


def lane_problem(lifecycle: Lifecycle, context: LaneContext, bound_s: float) -> str | None:
    """See the module; `bound_s` is how long a lane may be without progress."""
    lane = lifecycle.lane
    since_s = loop_time() - lane.entered_at
    is_late = since_s > bound_s
    match lane.state:
        case State.CLOSED:
            return None
        case State.OPENING:
            message = f"has been opening for {since_s:.0f} s{opening_progress(lane)}"
            return lifecycle.stuck or (message if is_late else None)
        case State.RESUMING:
            message = (
                f"was given back {since_s:.0f} s ago, and cannot prove yet that it is its owner"
            )
            return message if is_late else None
        case State.SUSPENDED | State.UNASSIGNED:
            message = f"was taken away {since_s:.0f} s ago and not given back: the group rebalances"
            return message if is_late else None
        case State.HANDING_OVER | State.ABANDONED:
            return None  # it is another's partition
        case State.DRAINING | State.DRAINING_ELSEWHERE | State.DRAINING_REOPENING:
            return None  # it is another's partition, or soon will be
        case State.OPEN:
            return (
                _poison_record(lane) or _overdue(lane, context) or _standing(lane, context, bound_s)
            )
        case _:
            assert_never(lane.state)


def opening_progress(lane: Lane) -> str:
    """How far its past is read, behind a colon."""
    return f": {lane.progress}" if lane.progress and lane.progress.ends else ""


def _poison_record(lane: Lane) -> str | None:
    count = lane.failed_openings
    if count <= OPENINGS_BEFORE_CARE or not lane.lane_state.queue.requests:
        return None
    return (
        f"was opened {count} times without progress: a request crashes its worker, something ends "
        f"workers, or Kafka fails them; "
        f"{len(lane.lane_state.suspects.found)} requests are suspected"
    )


def _overdue(lane: Lane, context: LaneContext) -> str | None:
    if loop_time() - lane.entered_at <= OVERDUE_S:
        return None  # calls that have ended before it was opened are settled first
    for lane_request, spend in lane.calls.items():
        name, timeout_s = lane_request.request.profile, lane.calls.timeout_s(spend)
        age_s = (context.clock.now() - spend.at).total_seconds()
        if age_s > timeout_s + OVERDUE_S:
            return f"a call to profile {name} goes on for {age_s:.0f} s, its limit is {timeout_s:g}"
    return None


def _standing(lane: Lane, context: LaneContext, bound_s: float) -> str | None:
    """Whether there is work, and none of it waits for a provider or a limit."""
    queue, idle_s = lane.lane_state.queue, loop_time() - lane.progressed_at
    has_work = lane.tasks or queue.pressing()
    if not has_work or lane.calls or idle_s <= bound_s or context.slots.is_awaited:
        return None
    planner, backends = context.planner, context.planner.backends
    names = {planner.asked(one.request.profile, one.progress.failed) for one in lane.tasks}
    if any(backends[name].limiter.slots.is_awaited for name in names if name in backends):
        return None
    return f"has {len(queue)} requests and made no progress for {idle_s:.0f} s"
