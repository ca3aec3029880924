"""What happens on the bus, as it happens: records of our topics as events, never an exception."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from answerbus.client.bus import Bus
from answerbus.envelope import decode
from answerbus.partition import partition_of
from answerbus.topics import RETRIES, Topic
from services.commands.seen import RetryEnded, Seen

_POLL_MS = 500


@asynccontextmanager
async def live_events(
    bus: Bus, topics: Collection[Topic], *, workflow_id: str | None, from_start: bool
) -> AsyncIterator[AsyncIterator[Seen]]:
    """The records from now on or from the start of retention; all of them, or one partition's.

    When the block is entered, the reader is in place. Raises BusUnavailable.
    """
    partitions = await bus.partitions(*topics)
    chosen = range(partitions) if workflow_id is None else (partition_of(workflow_id, partitions),)
    consumer = bus.consumer(auto_offset_reset="earliest")
    async with bus.running(consumer):
        places = [bus.place(topic, partition) for topic in topics for partition in chosen]
        consumer.assign(places)
        if not from_start:
            with bus.explained():
                await consumer.seek_to_end(*places)
        names = {topic.full_name(bus.prefix): topic for topic in topics}
        yield _read(bus, consumer, names)


async def _read(
    bus: Bus, consumer: AIOKafkaConsumer, topics: dict[str, Topic]
) -> AsyncIterator[Seen]:
    while True:
        with bus.explained():
            found = await consumer.getmany(timeout_ms=_POLL_MS)
        for records in found.values():
            for record in records:
                yield seen(topics[record.topic], record)


def seen(topic: Topic, record: ConsumerRecord) -> Seen:
    """What a record is."""
    ended = topic is RETRIES and record.value is None and record.key is not None
    return Seen(
        topic,
        record.partition,
        record.offset,
        datetime.fromtimestamp(record.timestamp / 1000, UTC),
        RetryEnded(record.key.decode(errors="replace"))
        if ended
        else decode(record.value, record.headers),
    )
