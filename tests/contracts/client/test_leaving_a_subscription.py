"""A subscription ends in time, also where Kafka does not take its last commit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from answerbus.client import subscription
from answerbus.client.answer_type import AnswerType
from answerbus.client.bus import Bus
from answerbus.client.subscription import Subscription
from answerbus.registry import Registry
from answerbus.topics import RESULTS

LIMIT_S = 5.0
NAME = "answerbus.results.v1"


class AwayAfterOne:
    """A consumer whose Kafka gives one record, and is away then: a commit waits for it."""

    commits = 0

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[Any]]:
        record = ConsumerRecord(NAME, 0, 7, 0, 0, None, b"no event", None, 0, 8, ())
        return {TopicPartition(NAME, 0): [record]}

    async def commit(self, _: Any) -> None:
        self.commits += 1
        await asyncio.Event().wait()


class BusOfOne:
    prefix = "answerbus"

    def __init__(self) -> None:
        self.used = AwayAfterOne()
        self.stops = 0

    async def counts(self, *_: Any) -> None: ...

    def consumer(self, **_: Any) -> AwayAfterOne:
        return self.used

    @contextmanager
    def explained(self) -> Iterator[None]:
        yield

    @asynccontextmanager
    async def running(self, client: Any) -> AsyncIterator[Any]:
        yield client
        self.stops += 1


async def test_it_ends_while_kafka_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "STOP_TIMEOUT_S", 0.05)
    bus = BusOfOne()
    answers = AnswerType.of(str, Registry(()))
    async with asyncio.timeout(LIMIT_S):
        async with Subscription(cast("Bus", bus), answers, "g", {}, [RESULTS]) as outcomes:
            await anext(outcomes)
    assert (bus.used.commits, bus.stops) == (1, 1)
