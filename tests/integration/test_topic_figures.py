"""The figures of the Topics page on a real Kafka, those of runs and tools included."""

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.bus import Bus as ClientBus
from answerbus.topics import RUN_TOPICS, STEPS, TOOL_RESULTS, TOPICS, tool_calls, toolset_cards
from services.commands.topics import applied
from services.console.tasks import topic_counting
from services.console.tasks.topic_counting import TopicCounter
from services.console.tasks.topic_polling import GroupStatus, TopicPoller
from services.kafka.planning.plan import needed
from services.settings.settings import KafkaSettings
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka

SHOP, STORE = tool_calls("shop"), tool_calls("store")
LIMIT_S = 60.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.05)


async def apply_for(bus: Bus, *tools: str) -> None:
    settings = KafkaSettings(
        bootstrap_servers=bus.bootstrap, topic_prefix=bus.prefix, partitions=bus.partitions
    )
    await applied(settings, needed(tools, has_agents=True), dry_run=False)


async def test_topics_of_runs_and_tools_have_rates_sizes_and_lag(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_counting, "LOOK_EVERY_S", 0.2)
    outside = ClientBus(bus.bootstrap, bus.prefix, {})
    await apply_for(bus, "shop.echo")
    counter, poller = TopicCounter(outside, time.time), TopicPoller(outside)
    tasks = [asyncio.create_task(work.run()) for work in (counter, poller)]
    try:
        async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
            for topic in (SHOP, SHOP, TOOL_RESULTS):
                await producer.send_and_wait(bus.topic(topic), b"v" * 99, key=b"k", partition=0)
            await commit(bus, "shop-server", 1)
            await until(lambda: counter.counts.total[TOOL_RESULTS.name].records == 1)
            await until(lambda: counter.counts.total[SHOP.name].records == 2)
            assert counter.counts.mean_bytes(SHOP) == 100

            await apply_for(bus, "store.buy")
            await producer.send_and_wait(bus.topic(STORE), b"v", partition=0)
            await until(lambda: counter.counts.total[STORE.name].records == 1)
            assert counter.counts.total[SHOP.name].records == 2
        await until(lambda: bool(poller.results.topics))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    assert set(poller.results.topics) >= {*TOPICS, *RUN_TOPICS, toolset_cards("shop"), SHOP}
    assert STEPS not in counter.topics  # which the feed reads
    assert poller.results.topics[SHOP].kept == 2
    assert GroupStatus("shop-server", SHOP, 1, 1) in poller.results.groups


async def commit(bus: Bus, group: str, offset: int) -> None:
    async with AIOKafkaConsumer(
        bootstrap_servers=bus.bootstrap, group_id=group, enable_auto_commit=False
    ) as consumer:
        place = TopicPartition(bus.topic(SHOP), 0)
        consumer.assign([place])
        await consumer.commit({place: OffsetAndMetadata(offset, "")})
