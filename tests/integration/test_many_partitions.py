"""48 partitions that are all amid a batch that unpacks to just under the cap, on a real broker."""

import asyncio
from collections import Counter

import pytest
from aiokafka import TopicPartition

from answerbus.client.bus import Bus as ClientBus
from answerbus.client.records.unpacking import UNPACKED_BYTES_MAX
from answerbus.topics import REQUESTS
from tests.benchmarks.hostile_batches import memory_mib, reset_peak
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes
from tests.fuzz.produce import RawProducer
from tests.integration.bus import Bus
from tests.integration.partitions import recreate

pytestmark = pytest.mark.kafka

PARTITIONS = 48
RECORD_BYTES = 64 * 1024
PER_BATCH = (UNPACKED_BYTES_MAX - 64) // (RECORD_BYTES + 32)
AMID_RECORDS = 3  # of each poll, until every partition is amid its batch
LIMIT_S = 120.0
RSS_MIB_MAX = 200  # more than before; all of it unpacked is 768


async def test_partitions_amid_full_batches_hold_no_more_than_the_bound(bus: Bus) -> None:
    await recreate(bus, REQUESTS, PARTITIONS)
    value = bytes(RECORD_BYTES)
    batch = batch_bytes(Draft([Sent(value)] * PER_BATCH, Codec.ZSTD))
    client = ClientBus(bus.bootstrap, bus.prefix, {})
    places = [client.place(REQUESTS, number) for number in range(PARTITIONS)]
    async with RawProducer(bus.bootstrap) as producer:
        for place in places:
            assert (await producer.produce(place.topic, place.partition, batch)).error == 0

    read: dict[TopicPartition, list[int]] = {place: [] for place in places}
    reset_peak()
    before_mib = memory_mib("VmRSS")
    consumer = client.consumer(auto_offset_reset="earliest")
    async with client.running(consumer), asyncio.timeout(LIMIT_S):
        consumer.assign(places)
        while sum(map(len, read.values())) < PARTITIONS * PER_BATCH:
            most = 500 if all(read.values()) else AMID_RECORDS
            for place, records in (
                await consumer.getmany(timeout_ms=500, max_records=most)
            ).items():
                read[place] += [record.offset for record in records]
    rise_mib = memory_mib("VmHWM") - before_mib

    assert Counter(map(tuple, read.values())) == {tuple(range(PER_BATCH)): PARTITIONS}
    assert rise_mib < RSS_MIB_MAX
