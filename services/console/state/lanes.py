"""The lanes: as folded from the ledger, and as their workers report them; pure."""

from collections import Counter
from dataclasses import dataclass

from services.operators.records.event_summary import AccountSummary, LaneRecordSummary
from services.operators.records.summary import RecordSummary


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """The last opening of a lane: its worker, its time, and the openings without progress."""

    partition: int
    worker: str
    openings_without_progress: int
    opened_ms: int


@dataclass(frozen=True, slots=True)
class ReportedLane:
    """What a worker says of one of its lanes; `profile` and `request` are of its oldest request.

    `why` says why it is stuck; `request` is the state of that request.
    """

    worker: str
    state: str
    why: str = ""
    profile: str | None = None
    request: str = ""


class Lanes:
    """Accounts with nothing in flight are forgotten, so that it stays small."""

    def __init__(self) -> None:
        self._lanes: dict[int, LaneSummary] = {}
        self._in_flight: dict[str, tuple[int, int]] = {}

    def take(self, record: RecordSummary) -> None:
        """Take one record of the ledger."""
        partition = record.place.partition
        match record.event:
            case LaneRecordSummary() as event:
                self._lanes[partition] = self._lane(event, partition, record.at_ms)
            case AccountSummary(in_flight=()) as event:
                self._in_flight.pop(event.account_id, None)
            case AccountSummary() as event:
                self._in_flight[event.account_id] = (partition, len(event.in_flight))
            case _:
                pass

    def _lane(self, event: LaneRecordSummary, partition: int, at_ms: int) -> LaneSummary:
        """A worker writes its lane's record again now and then; an opening is one that counts."""
        worker, openings = event.worker, event.openings_without_progress
        before = self._lanes.get(partition)
        if before and before.worker == worker and openings <= before.openings_without_progress:
            at_ms = before.opened_ms
        return LaneSummary(partition, worker, openings, at_ms)

    @property
    def lanes(self) -> tuple[LaneSummary, ...]:
        return tuple(lane for _, lane in sorted(self._lanes.items()))

    @property
    def in_flight(self) -> Counter[int]:
        """Calls that were paid for and are not settled, by partition."""
        found: Counter[int] = Counter()
        for partition, count in self._in_flight.values():
            found[partition] += count
        return found
