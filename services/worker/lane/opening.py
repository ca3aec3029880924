"""Opens a lane: fences the predecessor, reads its state, and settles its calls."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.outcome import RetryRequest
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.lane_records import LaneRecords
from answerbus.private.ledger import (
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LaneRecord,
    Skipped,
)
from answerbus.topics import LEDGER, RUNS, Topic
from answerbus.wire import bytes_digest
from services.records.chunk_numbers import ChunkNumbers
from services.records.private_topics import RecordFault, private_event, runs_event
from services.records.run_gaps import RunGaps
from services.worker.core.budget.ledger import Ledger
from services.worker.core.request.lane_request import LaneRequest, request_from_retry
from services.worker.core.shared_budget.books import BudgetBooks
from services.worker.lane.state.recovered_runs import RecoveredRuns
from services.worker.ports.kafka import ReadProgress, Shard, StoredRecord

OPENINGS_BEFORE_CARE = 3  # without progress; from then on the lane marks what may end its worker
# Without a word from a predecessor it counts as dead; see lifecycle.PRESENCE_EVERY_S.
SILENCE_S = 3.0
LOOK_S = 0.2  # between two looks at what a predecessor writes
LOOKS_IN_VAIN_MAX = round(SILENCE_S / LOOK_S)  # a process that stood still has looked once

_IF_WRONG = (
    "or, if that record is wrong, `answerbus lanes show` says where it stands, and `answerbus "
    "lanes skip` passes it by"
)

RecordId = tuple[Topic, int, str]  # of a record: topic, offset, digest of its value


class LaneBlocked(Exception):
    """The lane stays shut until what the text says has changed; it is looked at now and then."""


class UnreadableState(LaneBlocked):
    """The content of the private topics is unusable."""


@dataclass(slots=True)
class RecoveredState:
    """The past of a partition, from its topics."""

    ledger: Ledger = field(default_factory=Ledger)
    budgets: BudgetBooks = field(default_factory=BudgetBooks)
    retries: dict[bytes, LaneRequest] = field(default_factory=dict)
    runs: RecoveredRuns = field(default_factory=RecoveredRuns)
    taken: int = 0  # records
    unreadable: dict[RecordId, RecordFault] = field(default_factory=dict)  # those not skipped
    keys_unread: set[bytes] = field(default_factory=set)  # of the ledger: skipped or not
    lanes: LaneRecords = field(default_factory=LaneRecords)
    numbers: ChunkNumbers = field(default_factory=ChunkNumbers)
    gaps: RunGaps = field(default_factory=RunGaps)
    was_alive: bool = False  # the predecessor, when it was shut out
    progress: ReadProgress = field(default_factory=ReadProgress)

    def is_in_use(self, worker: str) -> bool:
        """Whether another worker, dead or alive, has calls in flight or is at what it marked."""
        lane = self.ledger.lane
        if lane is None or lane.worker == worker:
            return False
        return lane.watched is not None or any(
            account.in_flight for account in self.ledger.accounts.live()
        )

    def take(self, record: StoredRecord) -> None:
        """Apply one record; one that cannot be read is noted, an operator may have skipped it."""
        self.taken += 1
        if record.fault is not None:
            # Of such a one readers keep different bytes.
            self._note(record, b"", RecordFault(record.fault))
        elif record.value is not None:
            self._apply(record, record.value)
        elif record.topic is LEDGER:
            self.ledger.end((record.key or b"").decode(errors="replace"))
            self.budgets.end((record.key or b"").decode(errors="replace"))
            self.numbers.end(record.key)
            if self.ledger.lane is None:
                self.lanes.end()
        elif record.topic is RUNS:
            self.runs.end(record.key)
            self.gaps.end(record.key)
        else:
            self.retries.pop(record.key or b"", None)

    def check(self) -> None:
        """Raises UnreadableState for the first record that is unreadable and not skipped."""
        for (topic, offset, _), fault in self.unreadable.items():
            count = len(self.unreadable)
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise UnreadableState(_unreadable(topic, offset, fault, more))

    def settle(self) -> None:
        """All is read, and no other worker can write any more. Raises UnreadableState."""
        self.check()
        for topic, gaps in ((LEDGER, self.numbers), (RUNS, self.gaps)):
            for offset, why in gaps.missing():
                raise UnreadableState(_unreadable(topic, offset, RecordFault(why)))
        self.ledger.closed.sort()

    def _apply(self, record: StoredRecord, value: bytes) -> None:
        is_of_runs = record.topic is RUNS
        event = runs_event(value) if is_of_runs else private_event(record.topic, value)
        match event:
            case RecordFault():
                self._note(record, value, event)
                if gaps := self._gaps_of(record.topic):
                    gaps.take_unreadable(record.key, record.offset)
            case Skipped():
                self._skip(record.topic, event)
            case LaneRecord():
                self.lanes.take(record.offset, value, event)
                self.ledger.lane = event
            case RetryRequest():
                # Inserted again, so that the order is that of the last word on each.
                self.retries.pop(record.key or b"", None)
                size = len(value)
                self.retries[record.key or b""] = request_from_retry(
                    event, record.key or b"", size, record.headers
                )
            case BudgetLeaseRecord() | BudgetShareRecord():
                self.budgets.restore(event)
            case AccountRecord() | ClosedRecord() | ClosedIdsRecord():
                if isinstance(event, ClosedIdsRecord):
                    self.numbers.take(event, record.offset)
                self.ledger.restore(event, record.appended_at, record.key)
            case _:
                self.runs.take(event, record.headers, len(value))
                self.gaps.take(event, record.offset)

    def _skip(self, topic: Topic, skipped: Skipped) -> None:
        if gaps := self._gaps_of(topic):
            gaps.skip(skipped.offset)
        self.unreadable.pop((topic, skipped.offset, skipped.digest), None)
        if topic is LEDGER and self.lanes.skip(skipped):
            self.ledger.lane = self.lanes.last

    def _gaps_of(self, topic: Topic) -> ChunkNumbers | RunGaps | None:
        if topic is LEDGER:
            return self.numbers
        return self.gaps if topic is RUNS else None

    def _note(self, record: StoredRecord, value: bytes, fault: RecordFault) -> None:
        self.unreadable[record.topic, record.offset, bytes_digest(value)] = fault
        if record.topic is LEDGER and record.key:
            self.keys_unread.add(record.key)

    def requests(self) -> list[LaneRequest]:
        """The requests that are open beyond their record, in the order in which they arrived.

        Runs among them may have an outcome, by a worker that does not read their topic.
        """
        listed = {lane_request.key: lane_request for lane_request in self.retries.values()}
        found = [*listed.values(), *self.runs.requests(listed)]
        return sorted(found, key=lambda lane_request: lane_request.origin.offset)


def _unreadable(topic: Topic, offset: int, fault: RecordFault, more: str = "") -> str:
    where = f"{topic.name}, offset {offset}, cannot be read"
    if fault.is_newer:
        return (
            f"{where}: a newer version of answerbus has written it{more}: run that version; see "
            "`answerbus lanes show`"
        )
    return (
        f"{where}: {fault.text}{more}; see `answerbus lanes show`, and `answerbus lanes skip`, "
        "which passes it by"
    )


async def any_owner(_: RecoveredState) -> None:
    """A lane that has one possible owner."""


async def restore(
    shard: Shard,
    worker: str,
    handover_s: float,
    ours: Callable[[RecoveredState], Awaitable[None]] = any_owner,
    recovered: RecoveredState | None = None,
    turn: asyncio.Semaphore | None = None,
) -> RecoveredState:
    """Fence, then read to the end: before that, a predecessor could still write behind our back.

    What can be read before is, since the predecessor may be at work: see `_handed_over`. `ours`
    raises LaneBlocked where the lane is another worker's, which is then not fenced. `recovered` may
    have been begun by an opening that failed: the reading goes on where that one ended.
    """
    recovered = recovered or RecoveredState()
    recovered.was_alive = False
    async with turn or asyncio.Semaphore():
        await shard.read_private(recovered.take, recovered.progress)
    recovered.check()
    await ours(recovered)
    await _handed_over(shard, recovered, worker, handover_s)
    await shard.fence()
    await shard.read_private(recovered.take, recovered.progress)
    recovered.settle()
    await ours(recovered)
    await shard.stop_reading()
    return recovered


async def _handed_over(
    shard: Shard, recovered: RecoveredState, worker: str, limit_s: float
) -> None:
    """Let a predecessor that is alive bring its calls home: fencing it wastes paid answers."""
    now = asyncio.get_running_loop().time
    ends_at, looks_in_vain = now() + limit_s, 0
    while recovered.is_in_use(worker) and now() < ends_at and looks_in_vain < LOOKS_IN_VAIN_MAX:
        await asyncio.sleep(LOOK_S)
        taken = recovered.taken
        await shard.read_private(recovered.take, recovered.progress)
        looks_in_vain = 0 if recovered.taken > taken else looks_in_vain + 1
        recovered.was_alive = recovered.was_alive or recovered.taken > taken
    recovered.was_alive = recovered.was_alive and looks_in_vain < LOOKS_IN_VAIN_MAX


def opened(ledger: Ledger, partitions: int, worker: str, now: datetime) -> LaneRecord:
    """The lane's record with one more opening; raises if the partition count has changed."""
    before = ledger.lane
    if before and before.moving_to is not None:
        raise UnreadableState(
            f"its record says that a move to {before.moving_to} partitions is not finished: run "
            f"`answerbus topics move`, {_IF_WRONG}"
        )
    if before and before.partitions != partitions:
        raise UnreadableState(
            f"its record says that there are {before.partitions} partitions, and this deployment "
            f"has {partitions}: restart the worker if it was moved, {_IF_WRONG}"
        )
    openings = before.openings_without_progress if before else 0
    return LaneRecord(
        partitions=partitions,
        openings_without_progress=openings + 1,
        worker=worker,
        at=now,
        earlier=before.earlier if before else (),
        results_at=before.results_at if before else 0,
        approvals_at=before.approvals_at if before else 0,
        controls_at=before.controls_at if before else 0,
        leases_at=before.leases_at if before else 0,
    )
