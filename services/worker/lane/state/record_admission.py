"""A record that has just arrived, in the state of a lane: queued, or ended at once."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from answerbus.dead_letter import CrashedWorker
from answerbus.envelope import ReceivedRequest
from answerbus.private.ledger import ClosedOutcome
from answerbus.request_key import RequestKey
from services.worker.core.budget.ledger import Ledger
from services.worker.core.request.admit import Admitted, Arrival, Duplicate, Misrouted, Unfit, admit
from services.worker.core.request.lane_request import AtOffset, LaneRequest, request_from_arrival
from services.worker.core.run.children import adopted
from services.worker.lane.state import records as lane_records
from services.worker.lane.state.cancellations import Cancellations
from services.worker.lane.state.open_children import parent_key
from services.worker.lane.state.open_runs import OpenRuns
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.suspects import Suspects
from services.worker.lane.state.watermark import Watermark
from services.worker.observer import Observer, Observers, WorkerCounters
from services.worker.ports import Outgoing, OutRecord


@dataclass(frozen=True, slots=True)
class LaneWrite:
    """Records that belong into one transaction, and the offset that goes with them."""

    records: tuple[Outgoing, ...]
    offset: int | None


def _as_it_is(admitted: Admitted) -> Admitted:
    return admitted


@dataclass(slots=True, kw_only=True)
class RecordAdmission:
    """What of a lane's state a new record meets; `complete` adds what its agent says of a run."""

    partition: int
    partitions: int
    counters: WorkerCounters
    ledger: Ledger
    watermark: Watermark
    queue: Queue
    suspects: Suspects = field(default_factory=Suspects)
    observer: Observer = field(default_factory=Observers)
    runs: OpenRuns = field(default_factory=OpenRuns)
    cancellations: Cancellations = field(init=False)
    complete: Callable[[Admitted], Admitted] = _as_it_is

    def __post_init__(self) -> None:
        self.cancellations = Cancellations(self.partition)

    def admit(self, arrival: Arrival, now: datetime) -> LaneWrite | None:
        """Admit a record: queue its request, or write down its outcome at once."""
        offset = arrival.place.offset
        if not self.watermark.deliver(offset):
            return None
        self.ledger.forget(now, self.watermark.committable)
        admission = admit(arrival, self.ledger, self.queue.digests, self.partitions)
        match admission:
            case Admitted():
                lane_request = request_from_arrival(
                    arrival, self._as_child(self.complete(admission))
                )
                note = self.ledger.take_in(lane_request.request, arrival.place, now)
                if note is not None:
                    lane_request.add_note(note)
                self.queue.put(lane_request)
                self.cancel_if_asked(lane_request)
                self._stop_with_parent(lane_request)
                self.observer.taken(lane_request)
                return None
            case Duplicate():
                if not self._is_held(arrival):
                    self.counters.duplicates += 1
                    self.watermark.finish(offset)
                return LaneWrite((), self.watermark.committable)
            case Misrouted():
                self.counters.forwarded += 1
                copy = lane_records.forwarded_record(
                    arrival, admission.workflow_id, admission.owner
                )
                return self._dispose(arrival, copy, "forwarded", now)
            case Unfit():
                self.counters.unreadable += not arrival.readable
                letter = lane_records.unfit_dead_letter(admission, arrival, now)
                self.observer.rejected(letter)
                home = lane_records.home_partition(self.partition, self.partitions)
                record = lane_records.unfit_record(letter, arrival, home)
                return self._dispose(arrival, record, "dead_letter", now)
            case _:
                assert_never(admission)

    def give_up_record(self, arrival: Arrival, crashes: int, now: datetime) -> LaneWrite | None:
        """End a record that must not be decoded."""
        offset = arrival.place.offset
        if not self.watermark.deliver(offset):
            return None
        self.suspects.pass_record(offset)
        if self.ledger.known_place(arrival.place_id):
            self.watermark.finish(offset)
            return LaneWrite((), self.watermark.committable)
        unfit = Unfit(CrashedWorker(openings=crashes), None, None)
        letter = lane_records.unfit_dead_letter(unfit, arrival, now)
        self.observer.rejected(letter)
        record = lane_records.unfit_record(letter, arrival, self.partition)
        return self._dispose(arrival, record, "dead_letter", now)

    def _dispose(
        self, arrival: Arrival, record: OutRecord, outcome: ClosedOutcome, now: datetime
    ) -> LaneWrite:
        closed = lane_records.closed_position(arrival, outcome, self.partitions, now)
        self.ledger.close(closed, None)
        self.watermark.finish(arrival.place.offset)
        home = lane_records.home_partition(self.partition, self.partitions)
        return self.writing(record, lane_records.event_record(closed, home))

    def _as_child(self, admitted: Admitted) -> Admitted:
        """A request that names an open run of its workflow is charged to the account of that."""
        parent = parent_key(admitted.request)
        above = self.queue.requests.get(parent) if parent else None
        if above is None:
            return admitted
        return replace(admitted, request=adopted(admitted.request, above.request))

    def cancel_if_asked(self, lane_request: LaneRequest) -> None:
        """A request that a person has cancelled ends, at once or when its call has ended."""
        if cause := self.cancellations.cause_of(lane_request):
            self.queue.cancel(lane_request, cause)

    def _stop_with_parent(self, lane_request: LaneRequest) -> None:
        above = self.queue.children.parent_of(lane_request)
        if above and above.cancelled:
            self.queue.cancel(lane_request, above.cancelled)

    def _is_held(self, arrival: Arrival) -> bool:
        """Whether this is the very record of a request that outlived a reopening."""
        if not isinstance(arrival.decoded, ReceivedRequest):
            return False
        lane_request = self.queue.requests.get(RequestKey.of(arrival.decoded.request))
        stored = AtOffset(arrival.place.offset)
        return lane_request is not None and lane_request.progress.stored == stored

    def writing(self, *records: Outgoing) -> LaneWrite:
        """Records for one transaction, with the offset of this moment."""
        return LaneWrite(records, self.watermark.committable)
