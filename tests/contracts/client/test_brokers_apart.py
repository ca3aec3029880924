"""What a client reads from two brokers, of which one is away for a moment, or behind in time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, NodeNotReadyError, TopicAuthorizationFailedError

from answerbus.client.bus import Bus
from answerbus.client.controls import PublishedControl, find_effect
from answerbus.client.errors import BusRefused
from answerbus.client.follow import follow
from answerbus.control import Cancel, ControlApplied
from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.outcome import Result
from answerbus.partition import Layout
from answerbus.request import Context, Request, TextRef
from answerbus.request_key import RequestKey
from answerbus.topics import TOPIC_OF_KIND
from tests.integration.answering import result

LIMIT_S = 5.0
NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
REQUEST = Request(
    request_id="r",
    workflow_id="w",
    answer_schema=TextRef(),
    context=Context(instructions="Say it."),
)
CANCEL = Cancel(scope="request", request_id="r", workflow_id="w", by="me", reason="enough", at=NOW)
APPLIED = ControlApplied(
    event_id="e.applied",
    control=CANCEL,
    effect="cancelled",
    workflow_id="w",
    requests=("r",),
    at=NOW,
)


class Consumer:
    """Of one record, appended at NOW by the clock of its broker; `away` are its broker's errors."""

    def __init__(self, event: Event, away: list[KafkaError]) -> None:
        record = encode(event)
        self.place = TopicPartition(TOPIC_OF_KIND[event.kind].full_name("answerbus"), 0)
        self._record = ConsumerRecord(
            *self.place, 0, _ms(NOW), 1, None, record.value, None, 0, 1, tuple(record.headers)
        )
        self._at, self._away = 0, away

    def assign(self, places: object) -> None: ...

    def seek(self, place: TopicPartition, offset: int) -> None:
        if place == self.place:
            self._at = offset

    async def position(self, _: TopicPartition) -> int:
        return self._at

    async def end_offsets(self, places: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: int(place == self.place) for place in places}

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[Any, Any]:
        found = SimpleNamespace(offset=0)
        return {
            place: found if place == self.place and at_ms <= _ms(NOW) else None
            for place, at_ms in times.items()
        }

    async def high_watermarks(self, places: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self._away:
            raise self._away.pop()
        return dict.fromkeys(places, 0)

    async def getmany(self, **_: Any) -> Mapping[TopicPartition, list[ConsumerRecord]]:
        await asyncio.sleep(0)
        at, self._at = self._at, 1
        return {} if at else {self.place: [self._record]}


class OneBus(Bus):
    """A bus whose consumers are that one."""

    def read_by(self, consumer: Consumer) -> "OneBus":
        object.__setattr__(self, "consumer", lambda **_: consumer)
        return self

    @asynccontextmanager
    async def running(self, client: Any) -> AsyncIterator[Any]:
        yield client

    async def counts(self, *_: Any) -> Any: ...


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _bus(event: Event, *away: KafkaError) -> Bus:
    return OneBus("there:9092", "answerbus", {}).read_by(Consumer(event, [*away]))


async def _followed(bus: Bus) -> list[Any]:
    async with asyncio.timeout(LIMIT_S):
        return [it.event async for it in follow(bus, RequestKey("w", "r"), [0], None, None)]


async def test_a_run_is_followed_to_its_end_while_the_leader_of_its_steps_is_away() -> None:
    (outcome,) = await _followed(_bus(result(REQUEST, "said"), NodeNotReadyError()))
    assert isinstance(outcome, Result)


async def test_a_right_that_is_missing_is_said() -> None:
    with pytest.raises(BusRefused):
        await _followed(_bus(result(REQUEST, "said"), TopicAuthorizationFailedError()))


async def test_an_effect_is_found_though_its_broker_is_behind_that_of_the_control() -> None:
    published = PublishedControl(CANCEL, 0, 0, NOW + timedelta(seconds=0.9))
    async with asyncio.timeout(LIMIT_S):
        assert await find_effect(_bus(APPLIED), Layout(1), published) == APPLIED
