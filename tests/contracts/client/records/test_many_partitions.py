"""Many partitions amid batches that unpack to just under the cap: one bound, and each goes on."""

import asyncio
import gc
import struct
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence

import pytest
from aiokafka import TopicPartition

from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.poll_time_budget import UNPACKED_BYTES_MAX as HELD_BYTES_MAX
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unpacking import UNPACKED_BYTES_MAX
from tests.contracts.client.records.consuming import Cluster, consuming
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes

pytestmark = pytest.mark.wide  # many cases, each of them long

PARTITIONS = 48
SIZE = 64 * 1024  # of a record
PER_BATCH = (UNPACKED_BYTES_MAX - 64) // (SIZE + 32)
LIMIT_S = 60.0
ROUND = 2 * PARTITIONS
NEAR_CAP = batch_bytes(
    Draft([Sent(b"%5d" % n + bytes(SIZE - 5)) for n in range(PER_BATCH)], Codec.ZSTD)
)
SMALL = batch_bytes(Draft([Sent(b"small")]))

Offsets = dict[TopicPartition, list[int]]


def place(number: int) -> TopicPartition:
    return TopicPartition("requests", number)


def at(batch: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + batch[8:]


def near_cap(partitions: int, batches: int = 1) -> Cluster:
    those = [at(NEAR_CAP, n * PER_BATCH) for n in range(batches)]
    return Cluster({place(number): those for number in range(partitions)})


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def polled(consumer: RecordConsumer, offsets: Offsets, most: int) -> set[TopicPartition]:
    found = await consumer.getmany(timeout_ms=1_000, max_records=most)
    for at_place, records in found.items():
        offsets.setdefault(at_place, []).extend(record.offset for record in records)
    return set(found)


def all_of(cluster: Cluster) -> Offsets:
    return {at_place: list(range(cluster.end(at_place))) for at_place in cluster.batches}


async def read_all(consumer: RecordConsumer, cluster: Cluster, most: int) -> Offsets:
    offsets: Offsets = {}
    wanted = sum(map(cluster.end, cluster.batches))
    async with asyncio.timeout(LIMIT_S):
        while sum(map(len, offsets.values())) < wanted:
            await polled(consumer, offsets, most)
    return offsets


@pytest.mark.usefixtures("traced")
async def test_all_that_is_amid_a_batch_together_holds_no_more_than_the_bound() -> None:
    cluster = near_cap(PARTITIONS)
    offsets: Offsets = {}
    async with consuming(cluster) as consumer:
        async with asyncio.timeout(LIMIT_S):
            while len(offsets) < PARTITIONS:
                await polled(consumer, offsets, 3)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        assert held < HELD_BYTES_MAX + UNPACKED_BYTES_MAX  # and what was fetched
        tracemalloc.reset_peak()
        for _ in range(ROUND):
            await polled(consumer, offsets, 3)
        _, peak = tracemalloc.get_traced_memory()
        # One batch more is unpacked as a whole, and its map is not traced.
        assert peak < HELD_BYTES_MAX + 3 * UNPACKED_BYTES_MAX


@pytest.mark.parametrize("most", [1, 7, 100, 500])
async def test_each_record_is_read_once_and_in_order(most: int) -> None:
    cluster = near_cap(6 if most == 1 else 12)
    async with consuming(cluster) as consumer:
        assert await read_all(consumer, cluster, most) == all_of(cluster)


async def test_what_was_fetched_is_not_fetched_again_and_again() -> None:
    cluster = near_cap(12, batches=3)
    packed = sum(len(batch) for those in cluster.batches.values() for _, batch in those)
    async with consuming(cluster) as consumer:
        assert await read_all(consumer, cluster, 500) == all_of(cluster)
    assert cluster.fetched_bytes < 2 * packed


async def test_each_partition_has_its_turn() -> None:
    """Also those that have nothing but a small record, behind many that unpack slowly."""
    big, smalls = near_cap(PARTITIONS, batches=3), [place(n) for n in range(100, 112)]
    batches: Mapping[TopicPartition, Sequence[bytes]] = {
        **{at_place: [one for _, one in those] for at_place, those in big.batches.items()},
        **{at_place: [SMALL] for at_place in smalls},
    }
    cluster = Cluster(batches)
    offsets: Offsets = {}
    async with consuming(cluster) as consumer:
        polls = 0
        while not set(smalls) <= set(offsets):
            await polled(consumer, offsets, 100)
            polls += 1
            assert polls <= 2 * len(batches)
        least = min(len(offsets.get(at_place, ())) for at_place in big.batches)
        most = max(len(offsets.get(at_place, ())) for at_place in big.batches)
        assert most - least <= PER_BATCH + 100


async def test_a_partition_that_is_paused_or_sought_away_lets_go_of_what_it_held() -> None:
    cluster = near_cap(12)
    offsets: Offsets = {}
    async with consuming(cluster) as consumer:
        gc.collect()
        gc.disable()  # memory must not wait for it
        tracemalloc.start()
        try:
            while len(offsets) < 12:
                await polled(consumer, offsets, 3)
            held, _ = tracemalloc.get_traced_memory()
            for number in range(6):
                consumer.seek(place(number), 0)
            consumer.pause(*map(place, range(6, 12)))
            await consumer.getmany(place(11))
            for number in range(6, 12):
                await consumer.getmany(place(number))
            left, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
        assert held > HELD_BYTES_MAX / 2
        assert left < held / 4
        consumer.resume(*map(place, range(6, 12)))
        offsets = {at_place: those for at_place, those in offsets.items() if at_place.partition > 5}
        async with asyncio.timeout(LIMIT_S):
            while offsets != all_of(cluster):
                await polled(consumer, offsets, 500)


async def test_a_reader_that_asks_for_one_partition_is_not_kept_waiting_by_others() -> None:
    cluster = near_cap(24)
    offsets: Offsets = {}
    async with consuming(cluster) as consumer:
        async with asyncio.timeout(LIMIT_S):
            while len(offsets) < 23:
                await polled(consumer, offsets, 3)
            last = place(next(n for n in range(24) if place(n) not in offsets or n == 23))
            read = len(offsets.get(last, ()))
            while read < PER_BATCH:
                found = await consumer.getmany(last, timeout_ms=100, max_records=50)
                read += len(found.get(last, ()))


async def test_one_record_at_a_time() -> None:
    cluster = near_cap(3)
    async with consuming(cluster) as consumer, asyncio.timeout(LIMIT_S):
        offsets: Offsets = {}
        for _ in range(3 * PER_BATCH):
            record = await consumer.getone()
            offsets.setdefault(place(record.partition), []).append(record.offset)
    assert offsets == all_of(cluster)


async def test_a_poll_that_waits_gets_what_comes_behind_many_skipped_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is passed by takes a poll's time, too; a poll that has given nothing starts again."""
    monkeypatch.setattr(PollTimeBudget, "is_spent", property(lambda self: self._taken_s > 0))
    control = Draft([Sent(b"\0" * 6, key=struct.pack(">hh", 0, 1))], attributes=0x30, producer_id=7)
    passed = [batch_bytes(control, n) for n in range(50)]
    cluster = Cluster({place(0): [*passed, at(SMALL, 50)]})
    async with consuming(cluster) as consumer:
        began = time.monotonic()
        found = await consumer.getmany(timeout_ms=30_000)
        record = await asyncio.wait_for(consumer.getone(place(0)), 1) if not found else None
    assert record is None
    assert [one.offset for one in found[place(0)]] == [50]
    assert time.monotonic() - began < 15
