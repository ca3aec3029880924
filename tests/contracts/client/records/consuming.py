"""A RecordConsumer over aiokafka's own fetcher, and a cluster in memory that answers it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.protocol.fetch import FetchRequest

from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.head import Head

PARTITION_FETCH_BYTES_MAX = 1024 * 1024  # aiokafka's default
FETCH_BYTES_MAX = 50 * 1024 * 1024
NODE = 0


class Cluster:
    """One broker, which leads all partitions; answers fetches as Kafka does.

    In the newest version of them that every release of aiokafka that the client takes reads.
    """

    _metadata_max_age_ms = 300_000

    def __init__(self, batches: Mapping[TopicPartition, Sequence[bytes]]) -> None:
        self.batches = {
            place: [(Head.of(one).end, one) for one in those] for place, those in batches.items()
        }
        self.fetched_bytes = 0
        self._loop = asyncio.get_running_loop()
        self.cluster = SimpleNamespace(
            leader_for_partition=lambda _: NODE, broker_metadata=lambda _: SimpleNamespace()
        )

    def end(self, place: TopicPartition) -> int:
        return self.batches[place][-1][0]

    async def send(self, node_id: int, request: FetchRequest) -> Any:
        assert isinstance(request, FetchRequest)
        found: dict[str, list[Any]] = {}
        left = FETCH_BYTES_MAX
        for topic, partitions in request.topics:
            for partition, offset, most in partitions:
                place = TopicPartition(topic, partition)
                data = self._from(place, offset, min(most, left), is_first=left == FETCH_BYTES_MAX)
                left = max(0, left - len(data))
                end = self.end(place)
                part: tuple[Any, ...] = (partition, 0, end, end, [], data)
                found.setdefault(topic, []).append(part)
        size = FETCH_BYTES_MAX - left
        await asyncio.sleep(0 if size else 0.01)  # a broker waits where it has nothing
        self.fetched_bytes += size
        return SimpleNamespace(API_VERSION=4, topics=list(found.items()))

    def _from(self, place: TopicPartition, offset: int, most: int, *, is_first: bool) -> bytes:
        data = b""
        for end, batch in self.batches[place]:
            if end <= offset:
                continue
            if is_first and not data and len(batch) > most:
                return batch
            data += batch[: most - len(data)]
            if len(data) >= most:
                break
        return data


@contextlib.asynccontextmanager
async def consuming(
    cluster: Cluster, isolation_level: str = "read_committed"
) -> AsyncIterator[RecordConsumer]:
    """The consumer from the first offset on, as after its start."""
    consumer = RecordConsumer(isolation_level=isolation_level, enable_auto_commit=False)
    subscription, client = consumer._subscription, consumer._client
    subscription.assign_from_user(list(cluster.batches))
    consumer._coordinator = SimpleNamespace(check_errors=lambda: None)
    consumer._fetcher = fetcher = Fetcher(
        cluster,
        subscription,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
        fetch_max_wait_ms=50,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
    )
    for place in cluster.batches:
        consumer.seek(place, 0)
    try:
        yield consumer
    finally:
        consumer._closed = True
        await fetcher.close()
        await client.close()
