"""A broker that gives an error in place of records, such as one whose disk has failed."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaStorageError, UnknownError

from answerbus.client.records.consumer import AGAIN_S
from tests.contracts.client.records.consuming import Cluster, consuming
from tests.fuzz.batches import Draft, Sent, batch_bytes
from tests.unit.worker.lane.virtual import on_virtual_time

PLACE = TopicPartition("requests", 0)
BATCH = batch_bytes(Draft([Sent(b"one")]))
UPDATES = 3  # until the metadata name another leader
LIMIT_S = 20.0


class Failing(Cluster):
    """`asked` is when records were asked for that it could not give."""

    def __init__(self, code: int) -> None:
        super().__init__({PLACE: [BATCH]})
        self._code, self._updates = code, 0
        self.asked: list[float] = []

    def force_metadata_update(self) -> None:
        self._updates += 1

    async def send(self, node_id: int, request: Any) -> Any:
        if self._updates >= UPDATES:
            return await super().send(node_id, request)
        self.asked.append(asyncio.get_running_loop().time())
        part: tuple[Any, ...] = (PLACE.partition, self._code, -1, -1, [], b"")
        return SimpleNamespace(API_VERSION=4, topics=[(PLACE.topic, [part])])


@pytest.mark.parametrize("error", [CorruptRecordException, KafkaStorageError, UnknownError])
@on_virtual_time
async def test_another_leader_is_looked_for_and_the_broker_is_not_asked_at_once(error: Any) -> None:
    """aiokafka asks the same broker as fast as it answers, and for a leader every 5 minutes."""
    async with asyncio.timeout(LIMIT_S), consuming(cluster := Failing(error.errno)) as consumer:
        (found,) = (await consumer.getmany(timeout_ms=60_000))[PLACE]

    assert (found.value, len(cluster.asked)) == (b"one", UPDATES)
    assert cluster.asked[-1] - cluster.asked[0] > 0.9 * AGAIN_S * (UPDATES - 1)


async def test_a_consumer_can_stop_meanwhile() -> None:
    """aiokafka waits for the fetches that it has cancelled."""
    async with asyncio.timeout(LIMIT_S), consuming(cluster := Failing(-1)) as consumer:
        assert not await consumer.getmany(timeout_ms=1)
        while not cluster.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
