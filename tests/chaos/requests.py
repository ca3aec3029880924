"""Reads the requests topic where hostile batches are in it, past which librdkafka does not read."""

import asyncio
from datetime import UTC, datetime

from aiokafka import TopicPartition

from answerbus.client.records.batch import Record as Found
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from tests.chaos.audit.record import Record

READ_LIMIT_S = 120.0
_POLL_MS = 200


def read_requests(bootstrap: str, topic: str, partitions: int) -> list[Record]:
    """All that is committed by now, in order; what cannot be read is a record without a value."""
    return asyncio.run(_read(bootstrap, topic, partitions))


async def _read(bootstrap: str, topic: str, partitions: int) -> list[Record]:
    consumer = RecordConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    places = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[Record] = []
    async with asyncio.timeout(READ_LIMIT_S):
        await consumer.start()
        try:
            consumer.assign(places)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(places)
            while [at for at in places if await consumer.position(at) < ends[at]]:
                batches = await consumer.getmany(timeout_ms=_POLL_MS)
                found += [_record(one) for records in batches.values() for one in records]
        finally:
            await consumer.stop()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _record(found: Found) -> Record:
    is_whole = not isinstance(found, Unreadable)
    return Record(
        topic="requests",
        partition=found.partition,
        offset=found.offset,
        timestamp=datetime.fromtimestamp(found.timestamp / 1000, UTC),
        key=found.key,
        value=found.value if is_whole else None,
        headers=tuple(found.headers) if is_whole else (),
    )
