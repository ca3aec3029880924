"""Markers of transactions are not reported as records that wait."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.bus import Bus as ClientBus
from answerbus.topics import REQUESTS
from services.console.tasks import polling
from services.console.tasks.polling import Poller
from services.kafka.marker_gaps import LAG_MAX, marker_gaps
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka

GROUP, LIMIT_S = "workers-of-markers", 60.0


async def test_markers_alone_are_no_lag_and_a_record_behind_them_is(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "EVERY_S", 0.2)
    outside, topic = ClientBus(bus.bootstrap, bus.prefix, {}), bus.topic(REQUESTS)
    places = [TopicPartition(topic, number) for number in range(bus.partitions)]
    first, second, third = places[:3]
    await publish(bus, {first: 1, second: 1, third: 1})
    await publish(bus, {second: 1})
    for _ in range(LAG_MAX):
        await publish(bus, {third: 1}, is_aborted=True)
    await commit(bus, dict.fromkeys((first, second, third), 1))
    ends = {first: 2, second: 4, third: 2 + 2 * LAG_MAX}

    found = await marker_gaps(outside, {at: (1, ends[at]) for at in ends})
    poller = Poller(outside, GROUP, ())
    polling_lag = asyncio.create_task(poller.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            while poller.results.lag is None or poller.results.lag[first.partition]:
                await asyncio.sleep(0.05)
            assert poller.results.lag[second.partition] == 3
            await publish(bus, {first: 1})
            while not poller.results.lag[first.partition]:
                await asyncio.sleep(0.05)
    finally:
        polling_lag.cancel()
        await asyncio.wait([polling_lag])

    assert found == {first}


async def publish(
    bus: Bus, records: dict[TopicPartition, int], *, is_aborted: bool = False
) -> None:
    """In one transaction, which leaves a marker in each partition."""
    async with AIOKafkaProducer(
        bootstrap_servers=bus.bootstrap, transactional_id=f"{bus.prefix}upstream"
    ) as producer:
        await producer.begin_transaction()
        for place, count in records.items():
            for _ in range(count):
                await producer.send_and_wait(place.topic, b"v", partition=place.partition)
        await (producer.abort_transaction() if is_aborted else producer.commit_transaction())


async def commit(bus: Bus, offsets: dict[TopicPartition, int]) -> None:
    async with AIOKafkaConsumer(
        bootstrap_servers=bus.bootstrap, group_id=GROUP, enable_auto_commit=False
    ) as consumer:
        consumer.assign([*offsets])
        await consumer.commit({at: OffsetAndMetadata(n, "") for at, n in offsets.items()})
