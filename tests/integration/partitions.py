"""Partitions that an operator adds to topics which are in use, and what a run leaves in them."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from answerbus.topics import REQUESTS, TOPICS, Topic
from tests.integration.bus import Bus
from tests.integration.evidence import Evidence
from tests.integration.kafka_admin import kafka_admin

VISIBLE_S = 20.0


async def extend(bus: Bus, topics: Iterable[Topic], partitions: int) -> Bus:
    """Give topics more partitions; the bus as clients see it which count those of the topics."""
    names = {bus.topic(topic) for topic in topics}
    async with kafka_admin(bus.bootstrap) as admin:
        more = {name: NewPartitions(total_count=partitions) for name in names}
        await admin.create_partitions(more)
        async with asyncio.timeout(VISIBLE_S):
            while not all(
                len(topic["partitions"]) == partitions
                and all(partition["leader"] >= 0 for partition in topic["partitions"])
                for topic in await admin.describe_topics(list(names))
            ):
                await asyncio.sleep(0.05)
    return replace(bus, partitions=partitions)


async def recreate(bus: Bus, topic: Topic, partitions: int) -> None:
    """Delete a topic and make it again, with another number of partitions."""
    name = bus.topic(topic)
    async with kafka_admin(bus.bootstrap) as admin:
        await admin.delete_topics([name])
        async with asyncio.timeout(VISIBLE_S):
            while name in await admin.list_topics():
                await asyncio.sleep(0.05)
            new = NewTopic(name, partitions, 1, topic_configs=dict(topic.settings()))
            while not await _is_created(admin, new):
                await asyncio.sleep(0.1)


async def _is_created(admin: AIOKafkaAdminClient, topic: NewTopic) -> bool:
    """The broker still deletes for a moment what it no longer shows."""
    await admin.create_topics([topic])
    return topic.name in await admin.list_topics()


async def collect_wide(bus: Bus, wide: Bus, topics: Iterable[Topic] = (REQUESTS,)) -> Evidence:
    """What a run of the deployment `bus` left, when `topics` have as many partitions as `wide`."""
    await _settled(bus, wide, topics := set(topics))
    return Evidence(
        bus.partitions,
        {topic: await (wide if topic in topics else bus).records(topic) for topic in TOPICS},
    )


async def _settled(bus: Bus, wide: Bus, topics: set[Topic]) -> None:
    """As `Bus.settled`, over the partitions that there are."""
    places = [
        TopicPartition(bus.topic(topic), number)
        for topic in TOPICS
        for number in range((wide if topic in topics else bus).partitions)
    ]
    async with (
        asyncio.timeout(VISIBLE_S),
        wide.reader([]) as committed,
        wide.reader([], "read_uncommitted") as all_there_is,
    ):
        while await committed.end_offsets(places) != await all_there_is.end_offsets(places):
            await asyncio.sleep(0.02)
