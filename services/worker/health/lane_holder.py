"""Finds the workflow that fills most of a lane's memory, so that others wait."""

from dataclasses import dataclass
from datetime import datetime

from answerbus.wire import format_timestamp
from services.worker.lane.lane import Lane
from services.worker.lane.state.machine import State

REQUESTS_MIN = 100  # of one workflow, to be named while the lane still takes requests in


@dataclass(frozen=True, slots=True)
class LaneHolder:
    """`since` is when its oldest request was published; a paused lane takes none in."""

    workflow_id: str
    requests: int
    running: int  # calls, and those that wait for a place at their profile
    since: datetime
    lane_is_paused: bool

    def describe(self) -> dict[str, object]:
        """As `/ready` shows it."""
        return {
            "workflow_id": self.workflow_id,
            "requests": self.requests,
            "running": self.running,
            "since": format_timestamp(self.since),
            "lane_is_paused": self.lane_is_paused,
        }


def holder_of(lane: Lane) -> LaneHolder | None:
    """The workflow with the most requests, where they are most of many or the lane is paused."""
    if lane.state is not State.OPEN:
        return None
    queue, is_paused = lane.lane_state.queue, lane.backpressure.is_paused
    found = queue.largest()
    if found is None:
        return None
    workflow_id, requests, running = found
    is_most = requests >= REQUESTS_MIN and 2 * requests > len(queue)
    if not is_paused and not is_most:
        return None
    theirs = (t for t in queue.requests.values() if t.request.workflow_id == workflow_id)
    since = next(theirs).origin.timestamp  # requests are kept as they came
    return LaneHolder(workflow_id, requests, running, since, is_paused)
