"""Reading topics from the outside on a real Kafka: all that is committed, and again by place."""

import asyncio
import json

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.client.bus import Bus as ClientBus
from answerbus.partition import partition_of
from answerbus.topics import RESULTS, RETRIES
from services.operators.adapters.picker import picking
from services.operators.adapters.reader import BATCH_RECORDS_MAX, Reader, reading
from services.operators.records.stored import RecordPosition, Stored
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka


@pytest.fixture
def seen_from_outside(bus: Bus) -> ClientBus:
    return ClientBus(bus.bootstrap, bus.prefix, {})


async def write(bus: Bus, numbers: range, *, commit: bool = True) -> None:
    """In one transaction, so that its marker leaves a gap behind the records of each partition."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bus.bootstrap, transactional_id=f"{bus.prefix}-writer"
    )
    async with producer:
        await producer.begin_transaction()
        for n in numbers:
            value = json.dumps({"n": n}).encode()
            await producer.send_and_wait(
                bus.topic(RESULTS), value, str(n).encode(), partition=n % bus.partitions
            )
        await (producer.commit_transaction() if commit else producer.abort_transaction())


async def rest(reader: Reader) -> list[int]:
    found = [stored async for batch in reader.to_end() for stored in batch]
    return sorted(json.loads(stored.value or b"")["n"] for stored in found)


async def test_a_reader_gives_what_is_committed_and_goes_on_where_it_stopped(
    bus: Bus, seen_from_outside: ClientBus
) -> None:
    await write(bus, range(50))
    await write(bus, range(50, 60), commit=False)
    async with reading(seen_from_outside, (RESULTS, RETRIES)) as reader:
        assert await rest(reader) == list(range(50))
        assert await reader.left() == 0
        assert await rest(reader) == []
        assert reader.is_connected

        await write(bus, range(60, 70))

        assert await reader.left() > 0
        assert await rest(reader) == list(range(60, 70))


async def test_the_oldest_come_first_and_what_comes_meanwhile_is_read_later(
    bus: Bus, seen_from_outside: ClientBus
) -> None:
    many = 3 * BATCH_RECORDS_MAX

    async def put(partition: int, *numbers: int) -> None:
        sent = [
            await producer.send(bus.topic(RESULTS), json.dumps({"n": n}).encode(), None, partition)
            for n in numbers
        ]
        await asyncio.gather(*sent)

    async def read(limit: int | None = None) -> list[int]:
        found = []
        async for stored in reader.oldest_first(RESULTS, reader.partitions):
            found.append(json.loads(stored.value or b"")["n"])
            if len(found) == limit:
                await put(1, many)
        return found

    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        await put(1, 0)
        await put(0, *range(1, many))
        async with reading(seen_from_outside, (RESULTS,)) as reader:
            assert sorted(await read(limit=2)) == list(range(many))
            assert await read() == [many]


async def test_a_reader_that_follows_begins_at_the_given_position(
    bus: Bus, seen_from_outside: ClientBus
) -> None:
    await write(bus, range(4))
    async with reading(seen_from_outside, (RESULTS,), from_start=False) as reader:
        await write(bus, range(4, 8))
        found: list[Stored] = []
        async with asyncio.timeout(30):
            async for batch in reader.follow():
                found += batch
                if len(found) >= 4:
                    break

    assert sorted(stored.key or b"" for stored in found) == [b"4", b"5", b"6", b"7"]


async def test_a_workflow_is_read_from_its_own_partition_alone(
    bus: Bus, seen_from_outside: ClientBus
) -> None:
    await write(bus, range(20))
    async with reading(seen_from_outside, (RESULTS,), workflow_id="order-4711") as reader:
        owner = partition_of("order-4711", bus.partitions)
        assert await rest(reader) == [n for n in range(20) if n % bus.partitions == owner]


async def test_a_record_is_picked_by_its_place(bus: Bus, seen_from_outside: ClientBus) -> None:
    await write(bus, range(40))
    async with reading(seen_from_outside, (RESULTS,)) as reader:
        stored = [record async for batch in reader.to_end() for record in batch]
    async with picking(seen_from_outside) as picker:
        chosen = stored[::7][::-1]
        assert await picker.pick_all([record.place for record in chosen]) == chosen

        marker = max(record.offset for record in stored if record.partition == 0) + 1
        assert await picker.pick(RecordPosition(RESULTS, 0, marker)) is None
        assert await picker.pick(RecordPosition(RESULTS, 0, marker + 1_000)) is None
