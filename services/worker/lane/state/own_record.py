"""A lane's record about itself in the ledger: its openings, suspects, and positions read."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from answerbus.private.ledger import WorkInProgress
from answerbus.topics import APPROVALS, CONTROLS, LEASES, TOOL_RESULTS, Topic
from services.worker.core.budget.ledger import Ledger
from services.worker.lane.state import records
from services.worker.lane.state.suspects import Suspects
from services.worker.ports.kafka import OutRecord

# Near the end of the ledger a lane's record is found soon (answerbus.client.layout), and retention
# never takes it away while the lane is open.
RENEWED_AFTER = timedelta(minutes=10)

_POSITIONS = {
    TOOL_RESULTS: "results_at",
    APPROVALS: "approvals_at",
    CONTROLS: "controls_at",
    LEASES: "leases_at",
}


@dataclass(slots=True)
class OwnRecord:
    """`watched` is what the worker does now that may end it."""

    partition: int
    ledger: Ledger
    suspects: Suspects
    watched: WorkInProgress | None = None

    def advance(self, topic: Topic, position: int) -> None:
        """All before `position` of a topic that speaks to lanes is applied."""
        if self.ledger.lane:
            update = {_POSITIONS[topic]: position}
            self.ledger.lane = self.ledger.lane.model_copy(update=update)

    def position_in(self, topic: Topic) -> int:
        """The first offset of such a topic that is not applied yet."""
        found: int = getattr(self.ledger.lane, _POSITIONS[topic], 0)
        return found

    def is_old(self, now: datetime) -> bool:
        lane = self.ledger.lane
        return lane is not None and now - lane.at > RENEWED_AFTER

    def encoded(self, now: datetime) -> OutRecord:
        if self.ledger.lane is None:
            raise RuntimeError("a lane has a record once it was opened")
        changes = {
            "at": now,
            "suspects": self.suspects.listed(),
            "suspect_record": self.suspects.record,
            "watched": self.watched,
        }
        self.ledger.lane = self.ledger.lane.model_copy(update=changes)
        return records.event_record(self.ledger.lane, self.partition)

    def without_failed_openings(self, now: datetime) -> OutRecord | None:
        """None if it has none."""
        lane = self.ledger.lane
        if lane is None or lane.openings_without_progress == 0:
            return None
        self.ledger.lane = lane.model_copy(update={"openings_without_progress": 0})
        return self.encoded(now)

    def at_close(self, now: datetime) -> OutRecord | None:
        """Without failed openings and marks; None if it has none."""
        self.watched = None
        is_marked = self.ledger.lane is not None and self.ledger.lane.watched is not None
        return self.without_failed_openings(now) or (self.encoded(now) if is_marked else None)
