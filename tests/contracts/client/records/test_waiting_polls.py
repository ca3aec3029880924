"""The worker's polls may wait for long: a partition that was paused and goes on ends them."""

import asyncio

from aiokafka import TopicPartition

from tests.contracts.client.records.consuming import Cluster, consuming
from tests.fuzz.batches import Draft, Sent, batch_bytes

PLACE = TopicPartition("requests", 0)
THREE = batch_bytes(Draft([Sent(b"one"), Sent(b"two"), Sent(b"three")]))
LIMIT_S = 20.0
WAIT_MS = 60_000  # beyond the limit


async def test_a_poll_that_waits_ends_when_a_partition_goes_on() -> None:
    async with asyncio.timeout(LIMIT_S), consuming(Cluster({PLACE: [THREE]})) as consumer:
        (first,) = (await consumer.getmany(timeout_ms=WAIT_MS, max_records=1))[PLACE]
        consumer.pause(PLACE)
        poll = asyncio.create_task(consumer.getmany(timeout_ms=WAIT_MS))
        while not consumer._fetcher._fetch_waiters:
            await asyncio.sleep(0)

        consumer.resume(PLACE)
        rest = (await poll)[PLACE]

    assert [record.value for record in (first, *rest)] == [b"one", b"two", b"three"]
