"""A record that has just arrived, in the books of a lane: queued, or ended at once."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from answerbus.dead_letter import CrashedWorker
from answerbus.envelope import ReceivedRequest
from answerbus.ledger import ClosedOutcome
from services.worker.core.admit import Admitted, Arrival, Duplicate, Misrouted, Unfit, admit
from services.worker.core.ledger import Ledger
from services.worker.core.tally import Tally
from services.worker.core.ticket import taken_in
from services.worker.lane import letters
from services.worker.lane.queue import Queue
from services.worker.lane.suspects import Suspects
from services.worker.lane.watermark import Watermark
from services.worker.observer import Observer, Several
from services.worker.ports import Outgoing, OutRecord


@dataclass(frozen=True, slots=True)
class Writing:
    """Records that belong into one transaction, and the offset that goes with them."""

    records: tuple[Outgoing, ...]
    offset: int | None


@dataclass(slots=True, kw_only=True)
class TakingIn:
    """What of a lane's state a new record meets."""

    partition: int
    partitions: int
    tally: Tally
    ledger: Ledger
    watermark: Watermark
    queue: Queue
    suspects: Suspects = field(default_factory=Suspects)
    observer: Observer = field(default_factory=Several)

    def arrive(self, arrival: Arrival, now: datetime) -> Writing | None:
        """Take a record in: queue it, or write down at once what becomes of it."""
        offset = arrival.place.offset
        if not self.watermark.deliver(offset):
            return None
        self.ledger.forget(now, self.watermark.committable)
        admission = admit(arrival, self.ledger, self.queue.digests, self.partitions)
        match admission:
            case Admitted():
                self.ledger.account(admission.request, now)  # the first admitted sets the limit
                ticket = taken_in(arrival, admission)
                self.queue.put(ticket)
                self.observer.taken(ticket)
                return None
            case Duplicate():
                if not self._is_held(arrival):
                    self.tally.duplicates += 1
                    self.watermark.finish(offset)
                return Writing((), self.watermark.committable)
            case Misrouted():
                self.tally.forwarded += 1
                copy = letters.forwarded(arrival, admission.workflow_id, admission.owner)
                return self._dispose(arrival, copy, "forwarded", now)
            case Unfit():
                self.tally.unreadable += not arrival.readable
                letter = letters.unfit_letter(admission, arrival, now)
                self.observer.unfit(letter)
                home = letters.home_of(self.partition, self.partitions)
                record = letters.unfit_record(letter, arrival, home)
                return self._dispose(arrival, record, "dead_letter", now)
            case _:
                assert_never(admission)

    def give_up_record(self, arrival: Arrival, crashes: int, now: datetime) -> Writing | None:
        """End a record that nobody may look into."""
        offset = arrival.place.offset
        if not self.watermark.deliver(offset):
            return None
        self.suspects.pass_record(offset)
        if self.ledger.known_place(arrival.place_id):
            self.watermark.finish(offset)
            return Writing((), self.watermark.committable)
        unfit = Unfit(CrashedWorker(openings=crashes), None, None)
        letter = letters.unfit_letter(unfit, arrival, now)
        self.observer.unfit(letter)
        record = letters.unfit_record(letter, arrival, self.partition)
        return self._dispose(arrival, record, "dead_letter", now)

    def _dispose(
        self, arrival: Arrival, record: OutRecord, outcome: ClosedOutcome, now: datetime
    ) -> Writing:
        closed = letters.closed_place(arrival, outcome, self.partitions, now)
        self.ledger.close(closed, None)
        self.watermark.finish(arrival.place.offset)
        home = letters.home_of(self.partition, self.partitions)
        return self._writing(record, letters.record_of(closed, home))

    def _is_held(self, arrival: Arrival) -> bool:
        """Whether this is the very record of a ticket that outlived a reopening."""
        if not isinstance(arrival.decoded, ReceivedRequest):
            return False
        ticket = self.queue.tickets.get(arrival.decoded.request.request_id)
        return ticket is not None and ticket.offset == arrival.place.offset

    def _writing(self, *records: Outgoing) -> Writing:
        return Writing(records, self.watermark.committable)
