"""The records of one partition that belong elsewhere after a change of the number; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from answerbus.broker_time import milliseconds
from answerbus.control import Cancel
from answerbus.dead_letter import MisroutedTwice
from answerbus.envelope import Encoded, decode, encode
from answerbus.outcome import RetryRequest
from answerbus.partition import Layout, partition_of
from answerbus.private.budgets import BudgetShareRecord
from answerbus.private.ledger import (
    LANE_KEY,
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LaneRecord,
    LedgerRecord,
    Skipped,
)
from answerbus.private.runs import RunCancelRecord, cancel_key
from answerbus.request_key import SEPARATOR
from answerbus.topics import LEDGER, Topic
from answerbus.wire import bytes_digest
from services.operators.records.stored import Stored
from services.records.private_topics import RecordFault, passes_by, private_event, runs_event
from services.worker.core.budget.ledger import Ledger
from services.worker.core.budget.packed_ids import (
    OF_NO_WORKFLOW,
    Entry,
    PackedIds,
)
from services.worker.core.request.admit import (
    Admitted,
    Arrival,
    Duplicate,
    Misrouted,
    UnfitRequest,
    admit,
)
from services.worker.lane.state import records
from services.worker.lane.state.cancellations import CANCELS_KEPT
from services.worker.lane.state.records import event_record
from services.worker.ports.kafka import OutRecord

_Private = LedgerRecord | RetryRequest
Lanes = Mapping[int, LaneRecord]
WRITER = "topics move"


class UnreadableRecord(Exception):
    """A record of the ledger or of the retries that this version does not understand."""


@dataclass(slots=True)
class PartitionContents:
    """The last record of each key in one partition of ledger and retries."""

    partition: int
    _last: dict[tuple[Topic, bytes], tuple[Stored, _Private]] = field(default_factory=dict)
    _unreadable: dict[tuple[Topic, int, str], str] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """The next record; a null value ends its key, and one may pass another by."""
        key = stored.topic, stored.key or b""
        if stored.value is None:
            self._last.pop(key, None)
            return
        event = private_event(stored.topic, stored.value)
        match event:
            case RecordFault(text=text):
                place = stored.topic, stored.offset, bytes_digest(stored.value)
                self._unreadable[place] = text
            case Skipped(offset=offset, digest=digest):
                self._unreadable.pop((stored.topic, offset, digest), None)
            case _:
                self._last.pop(key, None)
                self._last[key] = stored, event

    def places(self) -> Ledger:
        """What is closed by its place: a record of this partition that is not to be read again."""
        ledger = Ledger()
        for _, event in self._last.values():
            if isinstance(event, ClosedRecord) and event.is_place:
                ledger.restore(event)
            elif isinstance(event, ClosedIdsRecord):
                ledger.restore(_places_of(event))
        return ledger

    def check(self) -> None:
        """Raises UnreadableRecord for one that no operator has skipped."""
        for (topic, offset, _), why in self._unreadable.items():
            raise UnreadableRecord(
                f"{topic.name}, partition {self.partition}, offset {offset}, cannot be read: "
                f"{why}; see `answerbus lanes show`, and `lanes skip`, which passes it by."
            )

    def moves(
        self, partitions: int, committed: int, now: datetime
    ) -> Iterator[tuple[OutRecord, ...]]:
        """Each record that another partition owns: as it is written there, and its end here.

        A chunk of closed ids is divided among their owners, and the rest is written again.

        `committed` is the group's offset in the requests topic.
        """
        for (topic, key), (stored, event) in self._last.items():
            if isinstance(event, ClosedIdsRecord):
                yield from divided(self.partition, stored, event, partitions, committed, now)
                continue
            moved = _moved(stored, event, committed, now)
            if moved is None:
                continue
            workflow_id, encoded = moved
            owner = partition_of(workflow_id, partitions)
            if owner != self.partition:
                yield (
                    OutRecord(topic, owner, key, encoded.value, encoded.headers),
                    OutRecord(topic, self.partition, key, None, []),
                )


def _moved(
    stored: Stored, event: _Private, committed: int, now: datetime
) -> tuple[str, Encoded] | None:
    """What places the record, and itself in its new place; None for what stays in its partition.

    A lane of that number goes on with its leases; the home of a shared budget is another one.
    """
    if isinstance(event, ClosedRecord) and event.workflow_id is not None:
        return event.workflow_id, encode(_closed(event, committed, now))
    if not isinstance(event, AccountRecord | RetryRequest | BudgetShareRecord):
        return None
    headers = [(name, value) for name, value in stored.headers if value is not None]
    by = event.budget if isinstance(event, BudgetShareRecord) else event.workflow_id
    return by, Encoded(stored.key or b"", stored.value or b"", headers)


def _closed(record: ClosedRecord, committed: int, now: datetime) -> ClosedRecord:
    """An offset means nothing in another partition.

    A request whose record may be read again must be known there when it arrives, however long ago
    it was closed: it is kept for as long as one that was closed now.
    """
    at = now if record.offset >= committed else record.at
    return record.model_copy(update={"offset": 0, "at": at})


def divided(
    partition: int,
    stored: Stored,
    record: ClosedIdsRecord,
    partitions: int,
    committed: int,
    now: datetime,
) -> Iterator[tuple[OutRecord, ...]]:
    """The parts of a chunk for other partitions, and last the rest; nothing if all of it stays.

    An offset means nothing in another partition. A chunk of which a record may be read again must
    be known there when that arrives, however long ago it was closed: it is kept for as long as one
    that was closed now. The number of a chunk stays, also of an empty one, so that none is missed.
    """
    parts: dict[int, list[Entry]] = defaultdict(list)
    for entry in PackedIds.from_record(record):
        parts[_owner(entry, partition, partitions)].append(entry)
    if parts.keys() <= {partition}:
        return
    shift = stored.at - record.at  # its writer may have had a wrong clock
    until = now if record.offset >= committed else record.until + shift
    times = {"at": now, "until": until, "since": min(record.since + shift, until)}
    name = f"{partition}-{record.chunk}-{milliseconds(now)}"
    brought = {**times, "chunk": name, "offset": 0, "covers": 1}
    yield tuple(
        chain(
            (
                event_record(_with(record, entries, brought), owner)
                for owner, entries in sorted(parts.items())
                if owner != partition
            ),
            [event_record(_with(record, parts[partition], times), partition)],
        )
    )


def _places_of(record: ClosedIdsRecord) -> ClosedIdsRecord:
    """The part without request ids."""
    return _with(
        record, (one for one in PackedIds.from_record(record) if one.owner == OF_NO_WORKFLOW), {}
    )


def _owner(entry: Entry, partition: int, partitions: int) -> int:
    if entry.owner == OF_NO_WORKFLOW:
        return partition
    return int.from_bytes(entry.owner) % partitions


def _with(
    record: ClosedIdsRecord, entries: Iterable[Entry], changes: Mapping[str, object]
) -> ClosedIdsRecord:
    ids = PackedIds.of(entries)
    columns = {"keys": ids.written_keys, "rests": ids.rests, "owners": ids.owners}
    return record.model_copy(update={**columns, **changes})


def begun_records(
    layout: Layout, partitions: int, lanes: Lanes, group: str, now: datetime
) -> Iterator[OutRecord]:
    """From here on no lane opens until the move is done."""
    for number in range(layout.partitions):
        before = lanes.get(number)
        yield _record(number, layout.partitions, layout.earlier, partitions, before, group, now)


def done_records(
    layout: Layout, partitions: int, there: int, lanes: Lanes, group: str, now: datetime
) -> Iterator[OutRecord]:
    """From here on `partitions` are in use, of `there` that the ledger has."""
    before = dict.fromkeys((layout.partitions, *layout.earlier))
    earlier = tuple(count for count in before if count != partitions)
    for number in range(partitions):
        yield _record(number, partitions, earlier, None, lanes.get(number), group, now)
    for number in range(partitions, there):
        yield OutRecord(LEDGER, number, LANE_KEY.encode(), None, [])


def _record(
    number: int,
    partitions: int,
    earlier: tuple[int, ...],
    moving_to: int | None,
    before: LaneRecord | None,
    group: str,
    now: datetime,
) -> OutRecord:
    """Results, approvals, controls and leases that the lane has applied stay applied."""
    lane = LaneRecord(
        partitions=partitions,
        openings_without_progress=0,
        worker=WRITER,
        at=now,
        earlier=earlier,
        moving_to=moving_to,
        group=group,
        results_at=before.results_at if before else 0,
        approvals_at=before.approvals_at if before else 0,
        controls_at=before.controls_at if before else 0,
        leases_at=before.leases_at if before else 0,
    )
    return event_record(lane, number)


@dataclass(frozen=True, slots=True)
class Retained:
    """Its lane takes it where it is; `is_done`: it has been dealt with before."""

    is_done: bool


def forwarded(
    arrival: Arrival, places: Ledger, partitions: int, now: datetime
) -> tuple[OutRecord, OutRecord] | Retained:
    """The copy for the owner, and the entry that closes the record in its place, as a lane does."""
    verdict = admit(arrival, places, {}, partitions)
    match verdict:
        case Misrouted(owner=owner, workflow_id=workflow_id):
            return _copied(arrival, owner, workflow_id, partitions, now)
        case UnfitRequest(cause=MisroutedTwice(), workflow_id=str() as workflow_id):
            # It was forwarded by a lane that went by the number of partitions of that time.
            owner = partition_of(workflow_id, partitions)
            return _copied(arrival, owner, workflow_id, partitions, now)
        case Duplicate():
            return Retained(is_done=True)
        case Admitted() | UnfitRequest():
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


def unread_cancels(controls: Iterable[Stored], partitions: int, lanes: Lanes) -> list[str]:
    """The requests and workflows of cancellations that no lane has applied, sorted."""
    applied = {number: lane.controls_at for number, lane in lanes.items()}
    events = (
        decode(stored.value, stored.headers)
        for stored in controls
        if stored.partition < partitions and stored.offset >= applied.get(stored.partition, 0)
    )
    return sorted(
        event.request_id or f"workflow {event.workflow_id}"
        for event in events
        if isinstance(event, Cancel)
    )


def open_requests(records: Iterable[Stored], now: datetime) -> list[str]:
    """Their ids, sorted; a record that an operator has skipped keeps nothing open.

    Nor does a cancellation that a lane would forget.
    """
    last: dict[tuple[int, bytes], Stored] = {}
    passed: dict[tuple[int, int], list[Skipped]] = {}
    for stored in records:
        event = None if stored.value is None else runs_event(stored.value)
        is_forgotten = isinstance(event, RunCancelRecord) and now - event.at > CANCELS_KEPT
        if isinstance(event, Skipped):
            passed.setdefault((stored.partition, event.offset), []).append(event)
        elif is_forgotten or (stored.value is None and stored.fault is None):
            last.pop((stored.partition, stored.key or b""), None)
        else:
            last[stored.partition, stored.key or b""] = stored
    names = {
        _shown((stored.key or b"").decode(errors="replace"))
        for stored in last.values()
        if not any(
            passes_by(one, stored.offset, stored.value)
            for one in passed.get((stored.partition, stored.offset), ())
        )
    }
    return sorted(names)


def _shown(key: str) -> str:
    """The request of a key in the topic of runs; of a whole workflow's cancellation, that."""
    name = key.partition(SEPARATOR)[0].partition("/")[0]
    return name or f"workflow {key.removeprefix(cancel_key(None, ''))}"
