"""Requests that no worker has read yet, forwarded to their new partition; pure."""

from dataclasses import dataclass, replace
from datetime import datetime

from answerbus.dead_letter import MisroutedTwice
from answerbus.partition import partition_of
from services.worker.core.budget.ledger import Ledger
from services.worker.core.request.admit import Admitted, Arrival, Duplicate, Misrouted, Unfit, admit
from services.worker.lane.state import records
from services.worker.ports import OutRecord


@dataclass(frozen=True, slots=True)
class Retained:
    """Its lane takes it where it stands; `is_done`: it has been dealt with before."""

    is_done: bool


def forwarded(
    arrival: Arrival, places: Ledger, partitions: int, now: datetime
) -> tuple[OutRecord, OutRecord] | Retained:
    """The copy for the owner, and the entry that closes the record in its place, as a lane does."""
    verdict = admit(arrival, places, {}, partitions)
    match verdict:
        case Misrouted(owner=owner, workflow_id=workflow_id):
            return _copied(arrival, owner, workflow_id, partitions, now)
        case Unfit(cause=MisroutedTwice(), workflow_id=str() as workflow_id):
            # It was forwarded by a lane that went by the number of partitions of that time.
            owner = partition_of(workflow_id, partitions)
            return _copied(arrival, owner, workflow_id, partitions, now)
        case Duplicate():
            return Retained(is_done=True)
        case Admitted() | Unfit():
            return Retained(is_done=False)


def _copied(
    arrival: Arrival, owner: int, workflow_id: str, partitions: int, now: datetime
) -> tuple[OutRecord, OutRecord]:
    origin = arrival.origin
    if origin.partition == owner:
        # Moved there and back: a copy that names its own partition as its first is not believed.
        place = {"partition": arrival.place.partition, "offset": arrival.place.offset}
        arrival = replace(arrival, origin=origin.model_copy(update=place))
    copy = records.forwarded_record(arrival, workflow_id, owner)
    closed = records.closed_position(arrival, "forwarded", partitions, now)
    home = records.home_partition(arrival.place.partition, partitions)
    return copy, records.event_record(closed, home)
