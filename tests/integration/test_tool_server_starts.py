"""A tool server that learns late where its group is, on a real broker: no call is passed by."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pytest
from aiokafka.errors import KafkaTimeoutError

from answerbus.client.bus import Bus
from answerbus.tools import Toolset
from answerbus.tools.core.positions import Position
from answerbus.tools.kafka import KafkaChannel
from answerbus.tools.serving import serve_on
from tests.integration.tool_servers import ToolBus

pytestmark = pytest.mark.kafka

SESSION_MS = 6_000  # the least that brokers accept by default
CALLS = 30
LIMIT_S = 30.0


async def ran_after(tools: ToolBus) -> Counter[str]:
    """How often each of the calls ran that were there before the server."""
    ran, deeds = Counter[str](), Toolset("deeds")

    @deeds.tool
    async def act(name: str) -> str:
        ran[name] += 1
        return name

    await tools.create("deeds")
    names = [f"act-{number}" for number in range(CALLS)]
    await tools.publish("deeds", [(name, "act", {"name": name}) for name in names])
    bus = Bus(tools.bootstrap, tools.prefix, {})
    serving = asyncio.create_task(serve_on(bus, deeds, session_ms=SESSION_MS))
    with suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S):
            while len(ran) < CALLS and not serving.done():
                await asyncio.sleep(0.1)
    serving.cancel()
    await asyncio.wait([serving])
    return ran


async def test_records_that_come_before_the_position_is_known_are_served(
    tools: ToolBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than the session: no heartbeat is sent while a rebalance listener waits."""
    committed = KafkaChannel.committed

    async def slow(channel: KafkaChannel, partitions: Iterable[int]) -> Mapping[int, Position]:
        await asyncio.sleep(SESSION_MS / 1000 + 2)
        return await committed(channel, partitions)

    monkeypatch.setattr(KafkaChannel, "committed", slow)
    ran = await ran_after(tools)
    assert ran == Counter({f"act-{number}": 1 for number in range(CALLS)})


async def test_a_position_that_is_not_said_is_asked_for_again(
    tools: ToolBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, asked = KafkaChannel.committed, Counter[int]()

    async def failing(channel: KafkaChannel, partitions: Iterable[int]) -> Mapping[int, Position]:
        partitions = [*partitions]
        asked.update(partitions)
        if any(asked[one] == 1 for one in partitions):
            raise KafkaTimeoutError
        return await committed(channel, partitions)

    monkeypatch.setattr(KafkaChannel, "committed", failing)
    ran = await ran_after(tools)
    assert ran == Counter({f"act-{number}": 1 for number in range(CALLS)})
