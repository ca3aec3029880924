"""The topics of runs and tools: created by the settings, grown by a move, and in the way of one."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from answerbus.client.bus import Bus as ClientBus
from answerbus.topics import CONTROLS, RUN_TOPICS, RUNS, STEPS, tool_calls, toolset_cards
from services.commands.repartitioning.move import Moved, move
from services.commands.topics import applied
from services.kafka.planning.plan import Keep, needed
from services.settings.settings import KafkaSettings, SetUpError
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka

TOOLS, CARDS = tool_calls("shop"), toolset_cards("shop")


@pytest.fixture
def outside(bus: Bus) -> ClientBus:
    return ClientBus(bus.bootstrap, bus.prefix, {})


@pytest.fixture
def moving(outside: ClientBus) -> Callable[[bool], Awaitable[Moved]]:
    def to_six(dry_run: bool) -> Awaitable[Moved]:
        now = lambda: datetime(2026, 11, 21, tzinfo=UTC)  # noqa: E731
        group = f"{outside.prefix}.worker"
        return move(outside, group, 6, dry_run=dry_run, now=now, say=lambda _: None)

    return to_six


async def test_open_runs_are_named_and_stay_where_they_are(
    bus: Bus, outside: ClientBus, moving: Callable[[bool], Awaitable[Moved]]
) -> None:
    settings = KafkaSettings(
        bootstrap_servers=bus.bootstrap, topic_prefix=bus.prefix, partitions=bus.partitions
    )
    wanted = needed(("shop.echo", "shop.pay"), has_agents=True)
    await applied(settings, wanted, dry_run=False)
    counts = await outside.counts(TOOLS, CARDS, *RUN_TOPICS)
    assert (counts[TOOLS], counts[CARDS]) == (12, 1)
    assert {counts[topic] for topic in RUN_TOPICS} == {bus.partitions}
    again = await applied(settings, wanted, dry_run=False)
    assert all(isinstance(step, Keep) for step in again)

    # Kafka makes the topic of its groups when the first one is joined.
    async with AIOKafkaConsumer(
        bus.topic(STEPS), bootstrap_servers=bus.bootstrap, group_id=f"{bus.prefix}.any"
    ):
        pass
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for key, value in ((b"r-1", b"{}"), (b"r-1/1", b"{}"), (b"r-0", b"{}"), (b"r-0", None)):
            await producer.send_and_wait(bus.topic(RUNS), value, key=key, partition=1)
        (obstacle,) = (await moving(True)).obstacles
        assert obstacle.startswith("Runs or cancellations that are open: 1 (r-1)")
        with pytest.raises(SetUpError, match=re.escape(obstacle)):
            await moving(False)
        assert (await outside.counts(RUNS))[RUNS] == bus.partitions, "nothing was changed"

        for key in (b"r-1", b"r-1/1"):
            await producer.send_and_wait(bus.topic(RUNS), None, key=key, partition=1)
    moved = await moving(False)
    assert moved.after == 6
    counts = await outside.counts(RUNS, STEPS, CONTROLS, TOOLS)
    assert [counts[topic] for topic in (RUNS, STEPS, CONTROLS, TOOLS)] == [6, 6, 6, 12]
