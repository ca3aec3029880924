"""A chunk of closed ids divided among the partitions that own them after a move; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain

from answerbus.private.ledger import ClosedIdsRecord
from services.operators.records.stored import Stored
from services.worker.core.budget.id_chunk import milliseconds
from services.worker.core.budget.packed_ids import (
    OF_NO_WORKFLOW,
    Entry,
    PackedIds,
)
from services.worker.lane.state.records import event_record
from services.worker.ports import OutRecord


def divided(
    partition: int,
    stored: Stored,
    record: ClosedIdsRecord,
    partitions: int,
    committed: int,
    now: datetime,
) -> Iterator[tuple[OutRecord, ...]]:
    """What other partitions get of a chunk, and last what stays; nothing if all of it does.

    An offset means nothing in another partition. A chunk of which a record may be read again must
    be known there when that arrives, however long ago it was closed: it is kept for as long as one
    that was closed now. The number of a chunk stays, also of an empty one, so that none is missed.
    """
    parts: dict[int, list[Entry]] = defaultdict(list)
    for entry in PackedIds.read(record):
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


def places_of(record: ClosedIdsRecord) -> ClosedIdsRecord:
    """What of it are no request ids."""
    return _with(record, (one for one in PackedIds.read(record) if one.owner == OF_NO_WORKFLOW), {})


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
