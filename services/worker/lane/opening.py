"""Opening a lane: shut the predecessor out, read what it left, and write off its calls."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.attempt import Attempt
from answerbus.envelope import Undecodable, decode
from answerbus.ledger import AccountRecord, ClosedRecord, LaneRecord
from answerbus.outcome import RetryRequest
from answerbus.topics import RETRIES
from services.worker.core.account import Spend
from services.worker.core.audit import give_back, write_off
from services.worker.core.ledger import Ledger
from services.worker.core.ticket import Ticket, restored
from services.worker.ports import Shard, StoredRecord

OPENINGS_BEFORE_SINGLE = 3  # without progress; from then on the lane works one at a time
OPENINGS_BEFORE_BURIAL = 5  # without progress; then the first request is given up


class UnreadableState(Exception):
    """A private record that this version does not understand: the lane stays shut."""


@dataclass(slots=True)
class Restored:
    """What the topics of a partition say of its past."""

    ledger: Ledger = field(default_factory=Ledger)
    retries: dict[bytes, tuple[RetryRequest, int]] = field(default_factory=dict)

    def take(self, record: StoredRecord) -> None:
        """Apply one record. Raises UnreadableState."""
        if record.value is None:
            if record.topic is RETRIES:
                self.retries.pop(record.key or b"", None)
            return
        event = decode(record.value)
        match event:
            case RetryRequest():
                # Inserted anew, so that the order is that of the last word on each.
                self.retries.pop(record.key or b"", None)
                self.retries[record.key or b""] = event, len(record.value)
            case AccountRecord() | ClosedRecord() | LaneRecord():
                self.ledger.restore(event)
            case Undecodable():
                reason = event.problems[0].expected
                raise UnreadableState(f"{record.topic.name} {record.key!r}: expected {reason}")
            case _:
                raise UnreadableState(f"{record.topic.name} {record.key!r}: a {event.kind}")

    def tickets(self) -> list[Ticket]:
        """The requests still being tried, in the order in which they first arrived."""
        entries = sorted(self.retries.values(), key=lambda pair: pair[0].origin.offset)
        return [restored(entry, size) for entry, size in entries]


async def restore(shard: Shard) -> Restored:
    """Fence, then read: in this order, or a predecessor could still write behind our back."""
    await shard.fence()
    past = Restored()
    await shard.read(past.take)
    return past


def settle_left_over(
    ledger: Ledger,
    calls: AbstractSet[Spend],
    unused: AbstractSet[Spend],
    now: datetime,
    worker: str,
) -> list[Attempt]:
    """Settle the spends that were found open, but for those of `calls`, which still go on.

    Those of `unused`, whose call is known never to have begun, are given back; those of a
    predecessor, for whose calls nobody can answer any more, are charged.
    """
    found = [spend for account in ledger.accounts.values() for spend in account.in_flight.values()]
    return [
        (give_back if spend in unused else write_off)(ledger, spend, now, worker)
        for spend in found
        if spend not in calls
    ]


def opened(ledger: Ledger, partitions: int, worker: str, now: datetime) -> LaneRecord:
    """The lane's record with one more opening; raises if the partition count has changed."""
    before = ledger.lane
    if before and before.partitions != partitions:
        raise UnreadableState(
            f"this ledger was written with {before.partitions} partitions, now there are "
            f"{partitions}; workflows would change lanes"
        )
    openings = before.openings_without_progress if before else 0
    return LaneRecord(
        partitions=partitions, openings_without_progress=openings + 1, worker=worker, at=now
    )
