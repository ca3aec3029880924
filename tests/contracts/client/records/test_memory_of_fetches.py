"""What was fetched is freed once its records are taken, without a search for cyclic garbage."""

import asyncio
import gc
import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition

from tests.contracts.client.records.consuming import Cluster, consuming
from tests.fuzz.batches import Draft, Sent, batch_bytes

PLACE = TopicPartition("requests", 0)
RECORD_BYTES = 256 * 1024
FETCHES = 40
LIMIT_S = 20.0
LARGE = batch_bytes(Draft([Sent(bytes(RECORD_BYTES))]))


@pytest.fixture
def no_search() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


@pytest.mark.usefixtures("no_search")
async def test_records_that_were_taken_leave_nothing_of_their_fetches() -> None:
    batches = [struct.pack(">q", offset) + LARGE[8:] for offset in range(FETCHES)]
    cluster = Cluster({PLACE: batches})
    async with asyncio.timeout(LIMIT_S), consuming(cluster) as consumer:
        before, taken = tracemalloc.get_traced_memory()[0], 0
        while taken < FETCHES:
            found = await consumer.getmany(timeout_ms=1_000, max_records=1)
            taken += sum(len(records) for records in found.values())
            del found
        held = tracemalloc.get_traced_memory()[0] - before

    assert held < 8 * RECORD_BYTES, "of the fetches that are under way"
