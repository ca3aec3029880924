"""The console on a real Kafka: a workload read as it is, and a broker that goes away."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from infra.kafka import Broker, start_broker
from services.console.main import serving
from services.settings import ConsoleSettings, KafkaSettings, Settings
from tests.integration.bus import Bus, create_topics, request

pytestmark = pytest.mark.kafka

LIMIT_S = 90.0


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[Broker]]:
    """Brokers that have run on one folder, the last one running."""
    running = [start_broker(tmp_path / "kafka")]
    yield running
    running[-1].stop()


async def until_page(
    session: ClientSession, url: str, holds: Callable[[str], bool], what: str
) -> str:
    """The page once it holds; every answer on the way is a page, too."""
    text = ""
    try:
        async with asyncio.timeout(LIMIT_S):
            while True:
                async with session.get(url) as response:
                    assert response.status == 200
                    text = await response.text()
                if holds(text):
                    return text
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not in {LIMIT_S} s: {what}; at last\n{text}") from None


async def test_the_pages_say_that_kafka_is_away_and_go_on_when_it_is_back(
    brokers: list[Broker], tmp_path: Path
) -> None:
    broker = brokers[0]
    bus = Bus(broker.bootstrap_servers, f"test-{uuid.uuid4().hex[:8]}", 2, tmp_path)
    await create_topics(bus)
    await bus.publish([request("r-1", "w-1")])
    kafka = KafkaSettings(bootstrap_servers=bus.bootstrap, topic_prefix=bus.prefix)
    settings = Settings(kafka=kafka, console=ConsoleSettings(port=0))
    async with (
        serving(settings) as address,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as session,
    ):
        async with session.get(address) as response:  # the printed address lets in
            assert response.status == 200
        tail = f"{address.partition('login')[0]}tail"
        await until_page(session, tail, lambda text: "r-1" in text, "the first request")

        broker.kill()
        away = await until_page(session, tail, lambda text: "cannot be used" in text, "trouble")
        assert "r-1" in away

        brokers.append(start_broker(broker.data, broker.port))
        await bus.publish([request("r-2", "w-2")])
        back = await until_page(session, tail, lambda text: "r-2" in text, "the second request")
        assert "r-1" in back
        await until_page(session, tail, lambda text: "cannot be used" not in text, "no trouble")
