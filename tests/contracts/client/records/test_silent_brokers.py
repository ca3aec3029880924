"""A fetch from a broker that gives no byte of an answer, and from one that is slow."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import KafkaConnectionError

from answerbus.client.records.consumer import SILENCE_S
from tests.contracts.client.records.consuming import NODE, Cluster, consuming
from tests.fuzz.batches import Draft, Sent, batch_bytes
from tests.unit.worker.lane.virtual import on_virtual_time

PLACE = TopicPartition("requests", 0)
BATCH = batch_bytes(Draft([Sent(b"one")]))
LIMIT_S = 10 * SILENCE_S
PARTS, PART_S = 5, SILENCE_S / 3  # in all beyond the silence that is waited for


class Slow(Cluster):
    """Its first answer comes in parts; after the last it is there, or nothing more comes."""

    def __init__(self, *, has_end: bool) -> None:
        super().__init__({PLACE: [BATCH]})
        self.closed: list[CloseReason] = []
        self._received, self._has_end = bytearray(), has_end
        self._ended = asyncio.Event()
        connection = SimpleNamespace(
            connected=lambda: not self._ended.is_set(),
            close=self._close,
            _reader=SimpleNamespace(_buffer=self._received),
        )
        self._conns = {(NODE, ConnectionGroup.DEFAULT): connection}

    def _close(self, *, reason: CloseReason) -> None:
        self.closed.append(reason)
        self._ended.set()

    async def send(self, node_id: int, request: Any) -> Any:
        if not self._ended.is_set():
            for _ in range(PARTS):
                await asyncio.sleep(PART_S)
                self._received += b"part"
            if not self._has_end:
                await self._ended.wait()
                raise KafkaConnectionError
        return await super().send(node_id, request)


@pytest.mark.parametrize(
    ("has_end", "closed"), [(True, []), (False, [CloseReason.CONNECTION_TIMEOUT])]
)
@on_virtual_time
async def test_a_fetch_ends_once_nothing_more_comes(
    has_end: bool, closed: list[CloseReason]
) -> None:
    """Its partitions may have another leader by then."""
    async with asyncio.timeout(LIMIT_S), consuming(cluster := Slow(has_end=has_end)) as consumer:
        (found,) = (await consumer.getmany(timeout_ms=60_000))[PLACE]

    assert (found.value, cluster.closed) == (b"one", closed)


@on_virtual_time
async def test_a_fetch_from_a_broker_that_was_connected_to_late_ends_too() -> None:
    cluster = Slow(has_end=False)
    made, cluster._conns = cluster._conns, {}
    asyncio.get_running_loop().call_later(PARTS * PART_S, cluster._conns.update, made)
    async with asyncio.timeout(LIMIT_S), consuming(cluster) as consumer:
        assert (await consumer.getmany(timeout_ms=60_000))[PLACE]

    assert cluster.closed == [CloseReason.CONNECTION_TIMEOUT]
