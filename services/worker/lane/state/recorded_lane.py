"""A lane's records about itself in the ledger: its openings, its marks, and its read position."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from answerbus.attempt import Attempt
from answerbus.event import Event
from answerbus.private.ledger import LaneRecord, Watched
from answerbus.request_key import RequestKey
from answerbus.topics import APPROVALS, CONTROLS, TOOL_RESULTS, Topic
from answerbus.trace import Trace
from services.worker.lane.state import records
from services.worker.lane.state.record_admission import LaneWrite, RecordAdmission
from services.worker.ports import LateRecord, OutRecord

# Near the end of the ledger a lane's record is found soon (answerbus.client.layout), and retention
# never takes it away while the lane is open.
RENEWED_AFTER = timedelta(minutes=10)

_POSITIONS = {TOOL_RESULTS: "results_at", APPROVALS: "approvals_at", CONTROLS: "controls_at"}


@dataclass(slots=True, kw_only=True)
class RecordedLane(RecordAdmission):
    """The state of a lane as far as its own record tells of it."""

    worker: str
    watched: Watched | None = None

    def advance(self, topic: Topic, position: int) -> None:
        """All before `position` of a topic that speaks to runs is applied."""
        if self.ledger.lane:
            update = {_POSITIONS[topic]: position}
            self.ledger.lane = self.ledger.lane.model_copy(update=update)

    def position_in(self, topic: Topic) -> int:
        """The first offset of such a topic that is not applied yet."""
        found: int = getattr(self.ledger.lane, _POSITIONS[topic], 0)
        return found

    def position_record(self, now: datetime) -> OutRecord:
        """The lane's record, which says how far that is."""
        return self._lane_record(now)

    def opening_records(
        self, lane: LaneRecord, orphaned: list[Attempt], traces: Mapping[RequestKey, Trace]
    ) -> LaneWrite:
        """The first transaction of an open lane; `traces` are of requests, as far as known."""
        self.ledger.lane = lane
        lane_record = self._lane_record(lane.at)
        accounts = dict.fromkeys(attempt.account_id for attempt in orphaned)  # in this order
        return self.writing(
            *(
                records.attempt_record(a, traces.get(RequestKey.of(a)), self.partition)
                for a in orphaned
            ),
            *(self._account_of(account) for account in accounts),
            lane_record,
        )

    def progress_record(self, now: datetime) -> OutRecord | None:
        """The lane's record without its failed openings, if it has any."""
        lane = self.ledger.lane
        if lane is None or lane.openings_without_progress == 0:
            return None
        self.ledger.lane = lane.model_copy(update={"openings_without_progress": 0})
        return self._lane_record(now)

    def closing_record(self, now: datetime) -> OutRecord | None:
        """The lane's record without failed openings and marks, if it has any."""
        self.watched = None
        is_marked = self.ledger.lane is not None and self.ledger.lane.watched is not None
        return self.progress_record(now) or (self._lane_record(now) if is_marked else None)

    def ownership_record(self, now: datetime) -> LaneWrite:
        """A write of no consequence that only the rightful owner of the partition can commit."""
        return self.writing(self._lane_record(now))

    def renewed_record(self, now: datetime) -> LaneWrite | None:
        """The lane's record again, if it is old: it says how many partitions there are."""
        lane = self.ledger.lane
        return self.ownership_record(now) if lane and now - lane.at > RENEWED_AFTER else None

    def pack_ids(self, now: datetime) -> LaneWrite | None:
        """The next step by which closed ids that stand singly in the ledger become chunks there.

        With it go the records of accounts and ids that are forgotten.
        """
        self.ledger.forget(now, self.watermark.committable)
        written = [
            records.ledger_tombstone(key, self.partition) if chunk is None else self._record(chunk)
            for key, chunk in self.ledger.closed.pack(now)
        ]
        written += [
            records.ledger_tombstone(records.account_key(account_id), self.partition)
            for account_id in self.ledger.take_forgotten()
        ]
        return self.writing(*written) if written else None

    def _account_of(self, account_id: str) -> LateRecord:
        return records.account_record(self.ledger.accounts[account_id], self.partition)

    def _lane_record(self, now: datetime) -> OutRecord:
        lane = self.ledger.lane
        if lane is None:
            raise RuntimeError("a lane has a record once it was opened")
        changes = {
            "at": now,
            "suspects": self.suspects.listed(),
            "suspect_record": self.suspects.record,
            "watched": self.watched,
        }
        self.ledger.lane = lane.model_copy(update=changes)
        return self._record(self.ledger.lane)

    def _record(self, event: Event) -> OutRecord:
        return records.event_record(event, self.partition)
