"""For each content of a batch: each offset is told once, what follows is read, memory is kept."""

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, islice

import pytest
from aiokafka import ConsumerRecord
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from answerbus.client.records.batch import Record
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unpacking import UNPACKED_BYTES_MAX
from answerbus.client.records.unreadable import Unreadable
from tests.contracts.client.records.fetched import read, reading, stretch_of
from tests.cpu_time import cpu_time
from tests.fuzz.batches import (
    Codec,
    Draft,
    Sent,
    batch_bytes,
    batch_of,
    payload_of,
    record_bytes,
)
from tests.fuzz.damage import DAMAGES, HEAVY

pytestmark = pytest.mark.wide  # many cases, each of them long

SEEDS = 2_000
BASE = 1_000
BEHIND = 2**33  # above what any count of offsets reaches
GOOD = batch_bytes(Draft([Sent(b"good")]), BEHIND)
CHUNK = 100
OLD_FORMATS = [(0, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY)]
OLD_FORMATS += [(1, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)]


NAMES = [(b"\xff", b"no text")]


class OneAtATime(PollTimeBudget):
    """After each part it is the next poll's turn."""

    def begin(self) -> tuple[int, float]:
        self._taken_s = 1.0
        return super().begin()


def at_base(data: bytes) -> bytes:
    """As a broker stores it."""
    return struct.pack(">q", BASE) + data[8:]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_damaged_batch_harms_nothing_but_itself(first: int) -> None:
    for seed in range(first, first + CHUNK):
        values = [b'{"n":%d}' % n for n in range(random.Random(seed).randrange(1, 6))]
        raw = batch_of(seed, values)
        data = at_base(raw.data) + GOOD
        *found, last = read(data, BASE)
        offsets = list(chain.from_iterable(stretch_of(one)[:10] for one in found))

        assert isinstance(last, ConsumerRecord), raw.kind
        assert (last.offset, last.value) == (BEHIND, b"good"), raw.kind
        assert offsets == sorted(set(offsets)), raw.kind
        if raw.draft.count is None and raw.draft.last_offset_delta is None and found:
            assert offsets == list(range(BASE, BASE + len(values))), raw.kind
        at = BASE + seed % 4
        assert read(data, at) == [one for one in (*found, last) if one.offset >= at], raw.kind


@pytest.mark.parametrize("codec", Codec)
def test_a_sound_batch_is_read(codec: Codec) -> None:
    values = [b"one", None, b"x" * 100_000, b""]
    headers = [(b"name", b"value"), ("ä".encode(), None)]
    draft = Draft([Sent(value, b"key", headers) for value in values], codec)
    found = read(at_base(batch_bytes(draft)), BASE)

    assert [(one.offset, one.value) for one in found] == [
        *zip(range(BASE, BASE + 4), values, strict=True)
    ]
    assert all(
        one.key == b"key" and one.headers == (("name", b"value"), ("ä", None)) for one in found
    )
    assert {one.timestamp for one in found} == {draft.first_timestamp}


@pytest.mark.parametrize("codec", Codec)
def test_a_large_batch_is_read_by_our_own_parser(codec: Codec) -> None:
    values = [b"%d" % n * 100 for n in range(4_000)]
    found = read(batch_bytes(Draft([Sent(v, None, [(b"a", b"b")]) for v in values], codec)))

    assert [one.value for one in found] == values
    assert [one.headers for one in found] == [(("a", b"b"),)] * 4_000


@pytest.mark.parametrize("name", [b"\xff", b"\x80abc", b"\xed\xa0\x80"])
@pytest.mark.parametrize("codec", Codec)
def test_a_header_name_that_is_no_text_costs_one_record(name: bytes, codec: Codec) -> None:
    records = [Sent(b"a"), Sent(b"b", b"key", [(b"x", b"y"), (name, b"z")]), Sent(b"c")]
    first, second, third = read(batch_bytes(Draft(records, codec)))

    assert isinstance(second, Unreadable)
    assert (second.extent, second.offset, second.end) == ("headers", 1, 2)
    assert (second.key, second.value) == (b"key", b"b")
    assert second.headers[0] == ("x", b"y")
    assert second.headers[1][0].startswith("\\x")
    assert (first.value, third.value) == (b"a", b"c")


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_bytes_behind_the_compressed_ones_cost_the_batch(codec: Codec) -> None:
    data = batch_bytes(Draft([Sent(b"a"), Sent(b"b")], codec, behind=b"junk"))
    (found,) = read(data + GOOD)[:-1]

    assert isinstance(found, Unreadable)
    assert (found.extent, found.offset, found.end, found.value) == ("batch", 0, 2, data)
    assert read(data + GOOD, 1) == read(GOOD), "its letter is that of its first offset"


@pytest.mark.parametrize("delta", [-5, 0, 1, 7, 2**31 - 1, 2**62])
def test_a_record_with_a_wrong_offset_hides_no_other(delta: int) -> None:
    records = [Sent(b"a"), Sent(b"b"), Sent(b"liar", offset_delta=delta), Sent(b"d"), Sent(b"e")]
    found = read(at_base(batch_bytes(Draft(records))), BASE)

    assert [stretch_of(one) for one in found] == [range(n, n + 1) for n in range(BASE, BASE + 5)]
    assert [isinstance(one, Unreadable) for one in found] == [False, False, True, False, False]
    assert found[2].value == b"liar"


def test_offsets_that_compaction_has_left_out_are_no_fault() -> None:
    records = [Sent(b"a", offset_delta=2), Sent(b"b", offset_delta=5), Sent(b"c", offset_delta=6)]
    reader = reading(batch_bytes(Draft(records, last_offset_delta=9)))

    assert [(one.offset, one.value) for one in reader] == [(2, b"a"), (5, b"b"), (6, b"c")]
    assert reader.next_fetch_offset == 10


def test_an_empty_batch_is_passed() -> None:
    reader = reading(batch_bytes(Draft([], last_offset_delta=9)) + GOOD)

    assert [one.value for one in reader] == [b"good"]


def bomb(codec: Codec, size: int) -> bytes:
    zeros = Sent(bytes(size))
    return batch_bytes(Draft([zeros], codec))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_unpacks_to_too_much_is_not_unpacked(codec: Codec) -> None:
    data = bomb(codec, 4 * UNPACKED_BYTES_MAX)
    tracemalloc.start()
    with cpu_time() as cpu:
        (found,) = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(found, Unreadable)
    assert "unpacks to at most 16,777,216 bytes" in found.expected
    assert peak < 4 * len(data) + UNPACKED_BYTES_MAX
    assert cpu.is_below(1)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_up_to_the_bound_it_is_unpacked(codec: Codec) -> None:
    (found,) = read(bomb(codec, UNPACKED_BYTES_MAX - 100))

    assert found.value == bytes(UNPACKED_BYTES_MAX - 100)


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_batch_takes_neither_memory_nor_time(name: str) -> None:
    chance = random.Random(1)
    data = batch_bytes(HEAVY[name](Draft([Sent(b"a")], Codec.GZIP), chance))
    tracemalloc.start()
    with cpu_time() as cpu:
        (found,) = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(found, Unreadable)
    assert peak < 2 * UNPACKED_BYTES_MAX
    assert cpu.is_below(1)


def test_many_headers_of_large_records_are_not_made() -> None:
    many = Sent(b"a", headers=[(b"", b"")] * 200_000)
    records = [many, Sent(b"b"), many]
    data = batch_bytes(Draft(records, Codec.ZSTD))
    tracemalloc.start()
    found = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [isinstance(one, Unreadable) for one in found] == [True, False, True]
    assert peak < 4 * 2**20


def test_a_poll_reads_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is fetched again, from where the reading stopped."""
    one = bomb(Codec.ZSTD, 4 * UNPACKED_BYTES_MAX)
    data = b"".join(struct.pack(">q", n) + one[8:] for n in range(200))
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock) * 0.02)  # a batch takes 20 ms
    reader = reading(data, allowance=PollTimeBudget())

    assert len(list(reader)) == 3
    assert reader.next_fetch_offset == 3


def spoilt(data: bytes, at: int) -> bytes:
    """A record's length that is beyond the end, in the payload of a batch."""
    return data[:at] + b"\xfe\xff\xff\xff\x0f" + data[at + 5 :]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("broken", [None, 0, 1, 900, 2_999])
@pytest.mark.parametrize("offset", [0, 1, 700])
def test_what_is_read_in_parts_is_what_is_read_at_once(
    codec: Codec, broken: int | None, offset: int
) -> None:
    """The share of each partition is smaller than the batch, and each poll gives few records."""
    records = [Sent(b"%d" % n * 200, b"k", NAMES if n == 800 else ()) for n in range(3_000)]
    draft = Draft(records, codec)
    if broken is not None:
        at = len(b"".join(record_bytes(one, n) for n, one in enumerate(records[:broken])))
        draft = replace(draft, payload=spoilt(payload_of(draft), at))
    data = batch_bytes(draft) + GOOD
    allowance = OneAtATime()
    reader = reading(data, offset, allowance=allowance)
    found: list[Record] = []
    polls = 0
    while not found or found[-1].offset != BEHIND:
        allowance.renew(256)
        found += islice(reader, 100)
        polls += 1
        assert polls < 100

    assert found == read(data, offset)
    assert reader.next_fetch_offset == BEHIND + 1


@pytest.mark.parametrize("magic", [0, 1, 7])
def test_a_batch_of_another_format_is_passed_by(magic: int) -> None:
    data = bytearray(batch_bytes(Draft([Sent(b"a")])))
    data[16] = magic
    (found, good) = read(bytes(data) + GOOD)

    assert isinstance(found, Unreadable)
    assert found.expected == f"a batch of format 2, not {magic}"
    assert good.value == b"good"


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS)
def test_messages_of_brokers_without_transactions_are_unreadable(magic: int, codec: Codec) -> None:
    """Whole, and with any byte spoilt: no broker that a worker can use delivers them."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1_000)
    for offset in range(3):
        builder.append(offset, timestamp=1_000, key=b"k", value=b"v")
    sound = bytearray(builder.build())
    if codec:
        sound[:8] = (2).to_bytes(8, "big")  # a broker gives the wrapper the offset of the last
    *old, good = read(bytes(sound) + GOOD)
    faults = {one.expected for one in old if isinstance(one, Unreadable)}

    assert faults == {f"a batch of format 2, not {magic}"}
    assert all(isinstance(one, Unreadable) for one in old)
    assert stretch_of(old[-1]).stop == 3
    assert good.value == b"good"
    for at in range(12, len(sound)):
        spoilt_one = bytearray(sound)
        spoilt_one[at] ^= 0xFF
        assert all(isinstance(one, Unreadable) for one in read(bytes(spoilt_one))), at


def test_a_wrong_checksum_costs_the_batch() -> None:
    data = batch_bytes(Draft([Sent(b"a")] * 3, sum_is_right=False))
    (found, _) = read(data + GOOD)

    assert isinstance(found, Unreadable)
    assert (found.offset, found.end) == (0, 3)


def test_a_control_batch_and_an_aborted_transaction_are_not_returned() -> None:
    theirs = Draft([Sent(b"a")], attributes=0x10, producer_id=7, producer_epoch=0)
    marker = Sent(b"\0" * 6, key=struct.pack(">hh", 0, 0))
    abort = replace(theirs, records=[marker], attributes=0x30)
    batches = [theirs, replace(theirs, producer_id=8), abort, theirs]
    data = b"".join(batch_bytes(draft, offset) for offset, draft in enumerate(batches))
    reader = reading(data, aborted=[(7, 0)])

    assert [one.offset for one in reader] == [1, 3]
    assert reader.next_fetch_offset == 4


def test_an_aborted_batch_is_not_even_unpacked() -> None:
    draft = Draft([Sent(b"a")], Codec.ZSTD, 0x10, producer_id=7, behind=b"junk")

    assert list(reading(batch_bytes(draft), aborted=[(7, 0)])) == []


@pytest.mark.parametrize("key", [None, b"", b"\0"])
def test_a_marker_that_is_none_stops_nothing(key: bytes | None) -> None:
    draft = Draft([Sent(b"", key=key)], attributes=0x30, producer_id=7)
    *_, last = reading(batch_bytes(draft) + GOOD, aborted=[(7, 0)])

    assert last.value == b"good"


def test_a_bug_of_the_parser_costs_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: Callable[..., None] = lambda *_: 1 / 0  # type: ignore[assignment] # noqa: E731
    monkeypatch.setattr("answerbus.client.records.batch.unpack", broken)
    data = batch_bytes(Draft([Sent(b"a")] * 3, Codec.ZSTD))
    (found, good) = read(data + GOOD)

    assert isinstance(found, Unreadable)
    assert (found.offset, found.end, found.expected) == (
        0,
        3,
        "a batch that can be read (ZeroDivisionError)",
    )
    assert good.value == b"good"


def test_every_damage_is_tried() -> None:
    """What the seeds choose among."""
    kinds = {batch_of(seed, [b"a", b"b"]).kind.partition(": ")[2] for seed in range(600)}

    assert set(DAMAGES) <= kinds
