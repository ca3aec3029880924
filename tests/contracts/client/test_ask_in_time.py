"""An ask ends in time, also where Kafka does not answer before its request is published."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from answerbus.client import connection
from answerbus.client.bus import Bus
from answerbus.client.connection import BusConnection
from answerbus.client.errors import BusUnavailable, NoAnswerYet
from answerbus.client.request_id import new_id
from answerbus.partition import Layout
from answerbus.request import Context, Request, TextRef
from answerbus.topics import Topic
from tests.integration.answering import result

REQUEST = Request(
    request_id="r-1",
    workflow_id="w",
    answer_schema=TextRef(),
    context=Context(instructions="Say it."),
)
LONG_S = 60.0


class Producer:
    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.sends = 0

    async def send_and_wait(self, *_: Any, **__: Any) -> SimpleNamespace:
        self.sends += 1
        await self.answers.wait()
        return SimpleNamespace(partition=0, offset=0)


class QuietBus:
    servers = "there:9092"

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def layout(self, *_: Any) -> Layout:
        return Layout(1)

    def producer(self) -> Producer:
        return self._producer

    def place(self, topic: Topic, partition: int) -> TopicPartition:
        return TopicPartition(topic.name, partition)

    @contextmanager
    def explained(self) -> Iterator[None]:
        yield

    @asynccontextmanager
    async def running(self, client: Any) -> AsyncIterator[Any]:
        yield client


class Reader:
    """Starts once `may_start` is set, and hands over `outcome`, if there is one."""

    has_ended = False
    may_start = asyncio.Event()
    outcome: object = None
    starts = stops = 0

    def __init__(self, _: Bus) -> None: ...

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Reader"]:
        Reader.starts += 1
        try:
            await Reader.may_start.wait()
            yield self
        finally:
            Reader.stops += 1

    @asynccontextmanager
    async def awaiting(self, *_: Any) -> AsyncIterator[asyncio.Future[Any]]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if Reader.outcome is not None:
            future.set_result(Reader.outcome)
        yield future


@asynccontextmanager
async def opened(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[BusConnection, Producer]]:
    """A connection whose look at earlier outcomes finds none."""

    async def nothing(*_: Any, **__: Any) -> None: ...

    monkeypatch.setattr(connection, "OutcomeReader", Reader)
    monkeypatch.setattr(connection, "find_past_outcome", nothing)
    monkeypatch.setattr(connection, "PUBLISH_S_MIN", 0.05)
    monkeypatch.setattr(Reader, "may_start", asyncio.Event())
    for name, value in (("starts", 0), ("stops", 0), ("outcome", None)):
        monkeypatch.setattr(Reader, name, value)
    producer = Producer()
    async with BusConnection(cast("Bus", QuietBus(producer))) as opened:
        yield opened, producer
        Reader.may_start.set()


def put_forward(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on so much later, by the clock of the loop."""
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + seconds)


async def test_kafka_that_takes_no_request_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (client, producer):
        monkeypatch.setattr(connection, "PUBLISH_S_MIN", LONG_S)
        Reader.may_start.set()
        asking = asyncio.create_task(client.ask(REQUEST, timeout_s=0.01))
        while not producer.sends:
            await asyncio.sleep(0)
        put_forward(monkeypatch, LONG_S)
        with pytest.raises(
            BusUnavailable, match="has not confirmed request 'r-1' of workflow 'w' in time"
        ):
            await asking
        assert producer.sends == 1


async def test_a_reader_that_is_slow_to_start_is_there_for_the_next_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (client, producer):
        producer.answers.set()
        for _ in range(2):
            with pytest.raises(BusUnavailable, match="has not confirmed"):
                await client.ask(REQUEST, timeout_s=0.01)
        Reader.may_start.set()
        monkeypatch.setattr(connection, "PUBLISH_S_MIN", LONG_S)
        with pytest.raises(NoAnswerYet):
            await client.ask(REQUEST, timeout_s=0.01)
        assert (Reader.starts, producer.sends) == (1, 1)


@pytest.mark.parametrize("timeout_s", [0.0, 0.01])
async def test_a_published_request_is_waited_for_no_longer_than_it_was_said(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    async with opened(monkeypatch) as (client, producer):
        monkeypatch.setattr(connection, "PUBLISH_S_MIN", LONG_S)
        Reader.may_start.set()
        producer.answers.set()
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(NoAnswerYet):
            await client.ask(REQUEST, timeout_s)
        assert asyncio.get_running_loop().time() - began_s < LONG_S / 2
        assert producer.sends == 1


async def test_an_outcome_that_is_there_is_given_though_the_rest_takes_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def slow_to_end(*_: Any) -> AsyncIterator[asyncio.Queue[Any]]:
        yield asyncio.Queue()
        put_forward(monkeypatch, 2 * LONG_S)
        await asyncio.sleep(0.01)

    monkeypatch.setattr(connection, "retries_of", slow_to_end)
    async with opened(monkeypatch) as (client, producer):
        Reader.may_start.set()
        producer.answers.set()
        Reader.outcome = sentinel = object()
        assert await client.ask(REQUEST, LONG_S, on_progress=lambda _: None) is sentinel


async def test_a_start_is_cut_off_by_the_close_and_not_gone_on_with_in_the_next_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (client, _):
        with pytest.raises(BusUnavailable):
            await client.ask(REQUEST, timeout_s=0.01)
        await client.__aexit__()
        assert Reader.stops == 1
        async with client:
            asking = asyncio.create_task(client.ask(REQUEST, None))
            while Reader.starts < 2:
                await asyncio.sleep(0)
        with pytest.raises(BusUnavailable, match="was closed"):
            await asking


async def test_a_new_id_that_is_asked_again_has_the_outcome_that_came_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers drop the copy, so that no other outcome comes."""
    request = REQUEST.model_copy(update={"request_id": new_id()})
    answer = result(request, "said")

    async def found(*_: Any, **__: Any) -> object:
        return answer

    async with opened(monkeypatch) as (client, producer):
        Reader.may_start.set()
        producer.answers.set()
        monkeypatch.setattr(connection, "find_past_outcome", found)
        monkeypatch.setattr(connection, "PUBLISH_S_MIN", LONG_S)
        with pytest.raises(NoAnswerYet):  # no other client knows the id
            await client.ask(request, timeout_s=0.01)
        assert await client.ask(request, timeout_s=5) == answer
