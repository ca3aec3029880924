"""A lane's record written again now and then: it says how many partitions the deployment has."""

from datetime import datetime, timedelta

from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.record_admission import LaneWrite

# Near the end of the ledger it is found soon (answerbus.client.layout), and retention never takes
# it away while the lane is open.
RENEWED_AFTER = timedelta(minutes=10)


def refreshed_lane_record(lane_state: LaneState, now: datetime) -> LaneWrite | None:
    """The record, if it is old."""
    lane = lane_state.ledger.lane
    return lane_state.ownership_record(now) if lane and now - lane.at > RENEWED_AFTER else None
