"""The server of one toolset cannot say what another offers, nor that it needs no approval."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from answerbus.topics import SHARED_CARDS, STEPS, TOOL_RESULTS, Topic, toolset_cards
from services.command_line import bus_of
from services.kafka.held_rights import held_rights, resource_names
from services.kafka.planning.rights import rights_of
from services.settings.settings import load
from tests.integration.bus import Bus, create_topics
from tests.integration.granting import Granting
from tests.integration.rights import PASSWORD, PASSWORD_ENV
from tests.integration.secured import Secured
from tests.integration.test_runs import CALLS, CARD, Json, ask, prepared

pytestmark = pytest.mark.kafka

LIMIT_S = 30.0
UNGUARDED: Json = {**CARD, "tools": [{**tool, "approval": "never"} for tool in CARD["tools"]]}
SHOP, WEATHER = toolset_cards("shop"), toolset_cards("weather")


async def announce(
    producer: AIOKafkaProducer, bus: Bus, card: Json, topic: Topic, key: str = "shop"
) -> None:
    await producer.send_and_wait(bus.topic(topic), json.dumps(card).encode(), key=key.encode())


async def test_kafka_lets_a_tool_server_announce_its_own_tools_alone(
    secured: Secured,
    make_prefix: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    bus = Bus(secured.plain, make_prefix(), 1, tmp_path, kafka=secured.settings("SASL_PLAINTEXT"))
    await create_topics(bus, topics=[WEATHER, SHOP, SHARED_CARDS, TOOL_RESULTS])
    kafka = load(bus.config([]), {}).kafka
    names = resource_names(kafka, "", "weather")
    rows = [it for it in rights_of("tools", names) if it.needed and it.operation == "Write"]
    granting, ours = Granting(secured, "tools"), bus_of(kafka)
    granting.grant(rows)
    try:
        async with asyncio.timeout(LIMIT_S):
            while set((await held_rights(ours, rows)).values()) != {True}:
                pass
        async with ours.running(ours.producer()) as producer:
            await announce(producer, bus, {**CARD, "toolset": "weather"}, WEATHER, "weather")
            for topic in (SHOP, SHARED_CARDS):
                with pytest.raises(TopicAuthorizationFailedError):
                    await announce(producer, bus, UNGUARDED, topic)
    finally:
        granting.clear(rows)


async def test_a_card_of_another_server_takes_no_approval_away(bus: Bus) -> None:
    """Wherever it may write: before this, the second and the third card were believed."""
    config = await prepared(bus)
    of_tools = replace(bus, partitions=1)
    await create_topics(of_tools, topics=[WEATHER, SHARED_CARDS])
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        await announce(producer, bus, UNGUARDED, WEATHER, "weather")
        await announce(producer, bus, UNGUARDED, SHARED_CARDS)
        await announce(producer, bus, UNGUARDED, SHOP, "weather")
    worker = await asyncio.to_thread(bus.start_worker, config)
    await bus.publish([ask("paid", "w-1")])

    async with asyncio.timeout(LIMIT_S):
        while "approval_requested" not in {step["kind"] for step in await bus.everything(STEPS)}:
            pass
    assert await of_tools.everything(CALLS) == []
    advice = (await asyncio.to_thread(lambda: worker.health))["advice"]
    assert "toolset shop: the topic of its card has a record with another key" in advice
