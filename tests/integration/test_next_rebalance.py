"""What lanes need of their consumer, of today's and of the prototype on the protocol of KIP-848."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.topics import REQUESTS
from tests.benchmarks.next_rebalance.members import MEMBERS, Member, Read
from tests.fuzz.batches import batch_of
from tests.fuzz.produce import RawProducer
from tests.integration.bus import Bus, until

pytestmark = [pytest.mark.kafka, pytest.mark.long]

LIMIT_S = 40.0
DAMAGED = 100  # batches; a broker takes most of them
QUIET_S = 1.0  # in which nothing comes that must not

Starts = Callable[[str], Awaitable[tuple[Member, list[Read]]]]


@asynccontextmanager
async def group(bus: Bus) -> AsyncIterator[Starts]:
    async with AsyncExitStack() as stack:

        async def start(kind: str) -> tuple[Member, list[Read]]:
            read: list[Read] = []

            async def take(records: Sequence[Read]) -> None:
                read.extend(records)

            member = MEMBERS[kind](bus.bootstrap, f"{bus.prefix}.{kind}", bus.topic(REQUESTS), take)
            await member.start()
            stack.push_async_callback(member.stop)
            return member, read

        yield start


async def written(bus: Bus, partition: int, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(bus.topic(REQUESTS), value, partition=partition)


def offsets(read: Sequence[Read], partition: int) -> list[int]:
    return [one.offset for one in read if one.partition == partition]


EACH = pytest.mark.parametrize("kind", MEMBERS)


@EACH
async def test_each_record_is_delivered_once_and_in_order(bus: Bus, kind: str) -> None:
    await written(bus, 0, *(b"%d" % n for n in range(250)))
    async with group(bus) as start:
        _, read = await start(kind)
        await until(lambda: len(read) >= 250, "all records", LIMIT_S)

    assert [one.value for one in read] == [b"%d" % n for n in range(250)]


@EACH
async def test_a_seek_leaves_neither_a_gap_nor_what_was_fetched_before(bus: Bus, kind: str) -> None:
    await written(bus, 0, *(b"%d" % n for n in range(100)))
    async with group(bus) as start:
        member, read = await start(kind)
        await until(lambda: len(read) >= 100, "all records", LIMIT_S)
        for offset in (40, 70, 10):  # the last one counts
            member.seek(0, offset)
        before = len(read)
        await until(lambda: 99 in offsets(read[before:], 0), "the end again", LIMIT_S)

        assert offsets(read[before:], 0)[-90:] == list(range(10, 100))


@EACH
async def test_a_paused_partition_keeps_no_other_from_being_read(bus: Bus, kind: str) -> None:
    async with group(bus) as start:
        member, read = await start(kind)
        await until(lambda: len(member.owned()) == bus.partitions, "all partitions", LIMIT_S)
        member.pause(0)
        await written(bus, 0, b"a")
        await written(bus, 1, b"b")
        await until(lambda: offsets(read, 1) == [0], "the other partition", LIMIT_S)
        await asyncio.sleep(QUIET_S)
        assert offsets(read, 0) == []

        member.resume(0)
        await until(lambda: offsets(read, 0) == [0], "the partition itself", LIMIT_S)


@EACH
async def test_a_member_goes_on_from_what_was_committed(bus: Bus, kind: str) -> None:
    await written(bus, 0, b"a", b"b", b"c")
    async with group(bus) as start:
        member, read = await start(kind)
        await until(lambda: len(read) == 3, "all records", LIMIT_S)
        await member.commit(0, 2)
    async with group(bus) as start:
        _, read = await start(kind)
        await until(lambda: len(read) > 0, "a record", LIMIT_S)

    assert offsets(read, 0) == [2]


@EACH
async def test_what_was_aborted_is_not_delivered(bus: Bus, kind: str) -> None:
    topic = bus.topic(REQUESTS)
    options = {"bootstrap_servers": bus.bootstrap, "transactional_id": f"{bus.prefix}.strange"}
    async with AIOKafkaProducer(**options) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"no", partition=0)
        await producer.abort_transaction()
    await written(bus, 0, b"yes")
    async with group(bus) as start:
        _, read = await start(kind)
        await until(lambda: len(read) > 0, "a record", LIMIT_S)

    assert [one.value for one in read] == [b"yes"]


@EACH
async def test_each_partition_has_one_member(bus: Bus, kind: str) -> None:
    async with group(bus) as start:
        one, _ = await start(kind)
        await until(lambda: len(one.owned()) == bus.partitions, "all partitions", LIMIT_S)
        other, _ = await start(kind)
        await until(lambda: len(other.owned()) == bus.partitions // 2, "a half", LIMIT_S)
        await until(lambda: len(one.owned()) == bus.partitions // 2, "the other half", LIMIT_S)

        assert one.owned() | other.owned() == set(range(bus.partitions))
        revoked = [change.partitions for change in one.history if change.kind == "revoked"]
        if kind == "next":  # what stays does not hear of it
            assert frozenset().union(*revoked) == frozenset(other.owned())
        else:
            assert frozenset(range(bus.partitions)) in revoked


STUCK = pytest.mark.xfail(strict=True, reason="librdkafka does not get past such a batch")


@pytest.mark.parametrize("kind", ["classic", pytest.param("next", marks=STUCK)])
async def test_what_no_client_can_read_keeps_nothing_from_being_read(bus: Bus, kind: str) -> None:
    taken = []
    async with RawProducer(bus.bootstrap) as producer:
        for seed in range(DAMAGED):
            raw = batch_of(seed, [b"x", b"y"])
            answer = await producer.produce(bus.topic(REQUESTS), seed % bus.partitions, raw.data)
            taken += [raw.kind] if answer.error == 0 else []
    for partition in range(bus.partitions):
        await written(bus, partition, b"behind")
    async with group(bus) as start:
        _, read = await start(kind)
        behind = f"what is behind {taken}"
        await until(lambda: [r.value for r in read].count(b"behind") == 4, behind, LIMIT_S)
