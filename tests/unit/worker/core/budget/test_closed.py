"""Closed ids in chunks: none is forgotten early, none is kept for long, and each costs little."""

import random
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from pydantic import ValidationError

from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.private.ledger import (
    KEY_BYTES,
    LEDGER_RECORD,
    OWNER_BYTES,
    ClosedIdsRecord,
    ClosedRecord,
    Skipped,
)
from answerbus.topics import LEDGER
from answerbus.wire import bytes_digest
from services.worker.core.budget.closed import (
    CHUNK_IDS,
    CLOSED_MEMORY,
    MERGED_CHUNKS,
    ClosedIds,
    IdMemory,
)
from services.worker.core.budget.ledger import closed_record
from services.worker.core.budget.packed_ids import BODY_BYTES, PackedIds, entry
from services.worker.lane.opening import RecoveredState, UnreadableState
from services.worker.ports.kafka import StoredRecord
from tests.unit.worker.builders import NOW, after

SMALL = IdMemory(chunk_ids=4, chunk_every=timedelta(minutes=10))
BYTES_MAX = 32
Log = list[tuple[bytes, bytes | None]]


def closed(
    name: str, at: datetime = NOW, offset: int = 0, *, is_place: bool = False
) -> ClosedRecord:
    return closed_record(name, None if is_place else "w-1", digest(name), "result", offset, at)


def digest(name: str) -> str:
    return bytes_digest(name.encode())


def written(event: Event) -> tuple[bytes, bytes]:
    encoded = encode(event)
    return encoded.key, encoded.value


@pytest.mark.parametrize(
    ("remember", "chunk_every"),
    [
        (CLOSED_MEMORY, timedelta(hours=1)),
        (timedelta(days=7), timedelta(hours=1)),
        (timedelta(minutes=24), timedelta(minutes=1)),
    ],
)
def test_ids_that_are_remembered_for_a_short_time_are_not_kept_an_hour_longer(
    remember: timedelta, chunk_every: timedelta
) -> None:
    assert IdMemory.lasting(remember).chunk_every == chunk_every


def test_a_changed_copy_of_an_entry_has_the_key_of_what_it_closes() -> None:
    """A move to another number of partitions writes changed copies."""
    one = closed("r-1")

    assert encode(one).key == b"closed:r-1@w-1"
    assert encode(one.model_copy(update={"closes": "r-2"})).key == b"closed:r-2@w-1"


class Lane:
    """What a lane does with its closed ids, and the ledger that comes of it."""

    def __init__(self, log: Log | None = None) -> None:
        self.log: Log = log or []
        self.recovered = read(self.log)
        self.ids = self.recovered.ledger.closed

    def close(self, record: ClosedRecord) -> None:
        self.ids.add(record)
        self.log.append(written(record))

    def pack(self, now: datetime = NOW) -> bool:
        steps = self.ids.pack(now)
        self.log += [(key.encode(), written(it)[1] if it else None) for key, it in steps]
        return bool(steps)


def read(log: Iterable[tuple[bytes, bytes | None]]) -> RecoveredState:
    recovered = RecoveredState()
    recovered.ledger.closed.memory = SMALL
    for offset, (key, value) in enumerate(log):
        recovered.take(StoredRecord(LEDGER, key, value, offset=offset))
    recovered.settle()
    return recovered


def compacted(log: Log) -> Log:
    last = {key: offset for offset, (key, _) in enumerate(log)}
    return [(k, v) for n, (k, v) in enumerate(log) if last[k] == n and v is not None]


def knows(ids: ClosedIds, name: str, *, is_place: bool = False) -> bool:
    found = ids.get(closed(name, is_place=is_place).name)
    return found is not None and found.has_body(digest(name)) and not found.has_body(digest("?"))


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(20))
def test_what_is_closed_is_known_however_it_was_written_and_read(seed: int) -> None:
    chance, names = random.Random(seed), [f"r-{n}" for n in range(200)]
    lane = Lane()
    for n, name in enumerate(names):
        lane.close(closed(name, after(n), n, is_place=n % 7 == 0))
        while chance.random() < 0.5 and lane.pack(after(n)):
            pass
        if chance.random() < 0.05:
            lane = Lane(chance.choice((compacted, list[tuple[bytes, bytes | None]]))(lane.log))

    for ids in (lane.ids, read(lane.log).ledger.closed, read(compacted(lane.log)).ledger.closed):
        assert [n for n in range(200) if not knows(ids, names[n], is_place=n % 7 == 0)] == []
        assert ids.get("@r-1") is None
        assert ids.get("r-200@w-1") is None
        assert ids.get("r-1@w-2") is None


def test_an_id_expires_in_memory_and_in_the_ledger() -> None:
    lane = Lane()
    for n in range(50):
        lane.close(closed(f"r-{n}", after(n), n))
        lane.pack(after(n))

    lane.ids.forget(NOW + CLOSED_MEMORY, committable=99)
    assert all(knows(lane.ids, f"r-{n}") for n in range(50)), "none is forgotten early"

    late = NOW + CLOSED_MEMORY + SMALL.chunk_every + timedelta(minutes=1)
    lane.ids.forget(late, committable=30)
    assert all(knows(lane.ids, f"r-{n}") for n in range(30, 50)), "they may be delivered again"
    lane.ids.forget(late, committable=99)
    assert len(lane.ids) == 0
    while lane.pack(late):
        pass
    assert compacted(lane.log) == []


@pytest.mark.parametrize("chunk_ids", [SMALL.chunk_ids, 1])
def test_an_id_that_is_closed_again_as_it_is_forgotten_stays_in_the_ledger(chunk_ids: int) -> None:
    """Its former record is not yet ended then, and has the key of the new one."""
    ids, later = ClosedIds(IdMemory(chunk_ids=chunk_ids)), NOW + CLOSED_MEMORY + timedelta(hours=1)
    for number in range(MERGED_CHUNKS + 1):  # of one id a chunk, the first waits to be written
        ids.add(closed(f"r-{number}"))
    ids.forget(later, 1)
    again = closed("r-0", later, 2)
    ids.add(again)

    ended = {f"closed:{closed(f'r-{number}').name}" for number in range(1, MERGED_CHUNKS + 1)}
    assert set(ids.pack(later)) == {(key, None) for key in ended}


def test_the_ledger_of_a_version_that_knew_no_chunks_is_packed_step_by_step() -> None:
    log: Log = [written(closed(f"old-{n}", NOW, n)) for n in range(100)]
    lane = Lane(log)
    for _ in range(3):
        lane.pack()
    lane = Lane(compacted(lane.log))  # it was ended in the midst of it
    lane.close(closed("new", after(1), 100))
    while lane.pack(after(3600)):
        pass

    assert all(knows(lane.ids, f"old-{n}") for n in range(100))
    kinds = [key.partition(b":")[0] for key, _ in compacted(lane.log)]
    assert set(kinds) == {b"closed_ids"}, "nothing stands singly any more"
    assert len(kinds) < 100 / SMALL.chunk_ids
    again = read(compacted(lane.log)).ledger.closed
    assert all(knows(again, f"old-{n}") for n in range(100))
    assert knows(again, "new")


def test_what_was_ended_by_a_move_is_not_known() -> None:
    log: Log = [written(closed(f"old-{n}", NOW, n)) for n in range(40)]
    ids = Lane([*log, (b"closed:old-3@w-1", None), (b"closed:old-39@w-1", None)]).ids

    assert [n for n in range(40) if not knows(ids, f"old-{n}")] == [3, 39]


def ids_of_a_version_without_chunks() -> ClosedIds:
    """Some of them wait to be written as a chunk."""
    names = [f"r-{n}" for n in range(MERGED_CHUNKS * SMALL.chunk_ids + 1)]
    return read(written(closed(name)) for name in names).ledger.closed


def test_what_waits_to_be_packed_is_remembered_as_long_as_all_others() -> None:
    ids = ids_of_a_version_without_chunks()
    ids.forget(NOW + CLOSED_MEMORY, 1)
    assert knows(ids, "r-0")

    ids.forget(NOW + CLOSED_MEMORY + timedelta(milliseconds=1), 1)
    assert not knows(ids, "r-0")


def test_what_was_closed_before_a_time_is_not_closed_since_in_a_chunk_either() -> None:
    ids, name, later = ClosedIds(), closed("r-0").name, NOW + timedelta(milliseconds=1)
    ids.add(closed("r-0"))
    for _ in ("single", "chunk"):
        assert ids.has_closed(name, NOW)
        assert not ids.has_closed(name, later)
        assert not ids.has_closed(closed("r-1").name, NOW)
        ids.pack(NOW + timedelta(hours=2))


def test_the_end_of_other_ids_ends_nothing_that_waits_to_be_packed() -> None:
    ids = ids_of_a_version_without_chunks()
    for n in range(SMALL.chunk_ids):
        ids.end(closed(f"moved-{n}").name)

    assert all(knows(ids, f"r-{n}") for n in range(SMALL.chunk_ids))


def test_an_id_of_a_wrong_clock_is_as_old_as_the_broker_says() -> None:
    ids = ClosedIds()
    ids.add(closed("r-1", NOW - 2 * CLOSED_MEMORY), NOW)
    ids.forget(NOW + CLOSED_MEMORY, 1)

    assert knows(ids, "r-1")


def test_packed_ids_are_found_by_keys_at_the_borders_of_their_first_byte() -> None:
    keys = [0, 1, (1 << 56) - 1, 1 << 56, (1 << 56) + 1, 255 << 56, (1 << 64) - 1]
    marks = {key: key.to_bytes(KEY_BYTES) + b"rest" for key in keys}
    ids = PackedIds.of(
        entry(mark, bytes([body]) * BODY_BYTES, bytes(OWNER_BYTES))
        for mark in marks.values()
        for body in (1, 2)
    )

    assert [ids.place_of(key) for key in keys] == [2 * number for number in range(len(keys))]
    for mark in marks.values():
        assert list(ids.bodies(mark)) == [b"\1" * BODY_BYTES, b"\2" * BODY_BYTES]
        assert list(ids.bodies(mark[:KEY_BYTES] + b"else")) == []
    for key in (2, (1 << 56) - 2, (1 << 56) + 2, 7 << 56, (255 << 56) - 1, (1 << 64) - 2):
        assert ids.place_of(key) is None
        assert list(ids.bodies(key.to_bytes(KEY_BYTES) + b"rest")) == []


@pytest.mark.wide
def test_an_id_costs_no_more_than_it_may() -> None:
    ids = ClosedIds()
    for n in range(10 * MERGED_CHUNKS * CHUNK_IDS):
        ids.add(closed(f"r-{n}", after(n / 100), n))
        if n % CHUNK_IDS == 0:
            ids.pack(after(n / 100))
    while ids.pack(after(1e5)):
        pass

    columns = [chunk.ids for chunk in ids._chunks.values()]
    taken = sum(
        sys.getsizeof(part)
        for column in columns
        for part in (column.keys, column._starts, column.rests, column.owners)
    )
    assert len(ids) == 10 * MERGED_CHUNKS * CHUNK_IDS
    assert taken / len(ids) <= BYTES_MAX
    assert len(columns) <= 10 + MERGED_CHUNKS, "each id that comes is looked up in all of them"


def test_a_chunk_of_a_wrong_clock_is_as_old_as_the_broker_says() -> None:
    lane, off = Lane(), timedelta(hours=-30)
    for n in range(4):
        lane.close(closed(f"r-{n}", NOW + off))
    lane.pack(NOW + off)
    (chunk,) = (it for it in map(_read, lane.log) if isinstance(it, ClosedIdsRecord))
    ids = ClosedIds(SMALL)
    ids.add_chunk(chunk, NOW)

    ids.forget(after(23 * 3600), committable=99)
    assert knows(ids, "r-1")
    ids.forget(after(25 * 3600), committable=99)
    assert len(ids) == 0


def _read(entry: tuple[bytes, bytes | None]) -> object:
    return LEDGER_RECORD.validate_json(entry[1]) if entry[1] else None


def packed() -> Log:
    """Three chunks that are not merged, since they are far apart in time."""
    lane = Lane()
    for n in range(12):
        lane.close(closed(f"r-{n}", after(n * 1e4), n))
        lane.pack(after(n * 1e4))
        lane.pack(after(n * 1e4))
    log = [(key, value) for key, value in compacted(lane.log) if key.startswith(b"closed_ids:")]
    assert len(log) >= 3
    return log


def test_a_chunk_that_is_missing_keeps_the_lane_shut_and_says_so() -> None:
    first, _, *rest = packed()

    with pytest.raises(UnreadableState, match=r"ledger, offset 1, .* chunk 1, .* are missing"):
        read([first, *rest])
    read(rest)  # those before the first that is there were ended, as far as anyone can tell


def skipped(offset: int, value: bytes | None) -> tuple[bytes, bytes | None]:
    """As `answerbus lanes skip` writes it, for what is missing before that offset."""
    encoded = encode(
        Skipped(
            offset=offset,
            digest=bytes_digest(value or b""),
            problem="chunk 1 is missing",
            by="an operator",
            reason="the disk is gone",
            at=NOW,
        )
    )
    return encoded.key, encoded.value


def test_a_chunk_that_is_missing_and_accepted_keeps_no_lane_shut() -> None:
    first, _, third = packed()[:3]

    state = read([first, third, skipped(1, third[1])])

    known = [n for n in range(12) if knows(state.ledger.closed, f"r-{n}")]
    assert 0 < len(known) < 12, "what is left is known, and no more"
    assert known[0] == 0


def test_an_accepted_loss_accepts_no_other() -> None:
    chunks = [*packed(), renumbered(packed()[-1], 9)]

    with pytest.raises(UnreadableState, match="are missing"):
        read([chunks[0], *chunks[2:], skipped(1, chunks[2][1])])


def renumbered(entry: tuple[bytes, bytes | None], number: int) -> tuple[bytes, bytes | None]:
    chunk = LEDGER_RECORD.validate_json(entry[1] or b"")
    assert isinstance(chunk, ClosedIdsRecord)
    encoded = encode(chunk.model_copy(update={"chunk": str(number)}))
    return encoded.key, encoded.value


@pytest.mark.parametrize(
    "damage",
    [
        {"keys": b"\1" * 8 + b"\0" * 8},
        {"keys": b"\0" * 9},
        {"rests": b"\0" * 12},
        {"owners": b""},
    ],
)
def test_a_chunk_that_is_damaged_is_not_taken_for_one(damage: dict[str, bytes]) -> None:
    whole = {"keys": b"\0" * 16, "rests": b"\0" * 24, "owners": b"\0" * 8, "chunk": "1"}
    times = {"since": NOW, "until": NOW, "at": NOW, "offset": 1}
    ClosedIdsRecord.model_validate({**whole, **times})

    with pytest.raises(ValidationError):
        ClosedIdsRecord.model_validate({**whole, **times, **damage})
