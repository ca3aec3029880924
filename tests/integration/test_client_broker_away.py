"""A client whose broker crashes and comes back, on a broker of the test's own."""

import asyncio
import os
import signal
import uuid
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from answerbus.client import BusUnavailable, Client
from answerbus.client.connection import PUBLISH_S_MIN
from answerbus.outcome import Result
from answerbus.request import Context, Request, TextRef
from answerbus.topics import REQUESTS
from infra.kafka import Broker, start_broker
from tests.integration.answering import answering, result
from tests.integration.bus import Bus, create_topics

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0
# Of an ask whose time is shorter; without a limit it takes 20 to 40 s.
ENDS_S_MAX = PUBLISH_S_MIN + 5.0
REQUEST = Request(
    request_id="r",
    workflow_id="w",
    answer_schema=TextRef(),
    context=Context(instructions="Say hello."),
)


async def topics_of_its_own(broker: Broker, folder: Path) -> Bus:
    bus = Bus(broker.bootstrap_servers, f"test-{uuid.uuid4().hex[:8]}", 2, folder)
    await create_topics(bus)
    return bus


async def requests_published(bus: Bus, count: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bus.bootstrap, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition(bus.topic(REQUESTS), p) for p in range(bus.partitions)])
        for _ in range(count):
            await consumer.getone()


@pytest.mark.long
async def test_a_wait_survives_a_crash_of_the_broker_and_a_publish_says_that_it_failed(
    brokers: list[Broker], tmp_path: Path
) -> None:
    broker = brokers[0]
    bus = await topics_of_its_own(broker, tmp_path)
    async with (
        asyncio.timeout(LIMIT_S),
        Client(bus.bootstrap, topic_prefix=bus.prefix, request_timeout_ms=2_000) as client,
    ):
        await client.publish(REQUEST)
        asking = asyncio.create_task(client.outcome_of("r", "w", timeout_s=None))
        waiting = asyncio.create_task(client.ask_request(REQUEST, timeout_s=None))
        await requests_published(bus, 2)
        broker.kill()
        other = REQUEST.model_copy(update={"request_id": "other"})
        with pytest.raises(BusUnavailable, match="does not answer"):
            await client.publish(other)
        brokers.append(start_broker(broker.data, broker.port))
        async with answering(bus, lambda asked: [result(asked, asked.request_id)]):
            outcomes = await asyncio.gather(asking, waiting)

    assert [outcome.answer for outcome in outcomes if isinstance(outcome, Result)] == ["r", "r"]


async def test_an_ask_ends_in_time_while_the_broker_stands_still_and_can_be_asked_again(
    brokers: list[Broker], tmp_path: Path
) -> None:
    broker = brokers[0]
    bus = await topics_of_its_own(broker, tmp_path)

    async def stands_still(asked: Request) -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(ENDS_S_MAX):
                with pytest.raises(
                    BusUnavailable, match=f"not confirmed request .{asked.request_id}"
                ):
                    await client.ask_request(asked, timeout_s=0.5)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    async with (
        asyncio.timeout(LIMIT_S),
        answering(bus, lambda asked: [result(asked, asked.request_id)]),
        Client(bus.bootstrap, topic_prefix=bus.prefix) as client,
    ):
        for when in ("before-its-reader-runs", "while-its-reader-runs"):
            asked = REQUEST.model_copy(update={"request_id": when})
            await stands_still(asked)
            outcome = await client.ask_request(asked)
            assert isinstance(outcome, Result)
            assert outcome.answer == asked.request_id
