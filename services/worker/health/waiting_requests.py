"""The number of requests that wait for each profile, and the age of the oldest."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from services.worker.lane.lane import Lane
from services.worker.lane.state.machine import State


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
