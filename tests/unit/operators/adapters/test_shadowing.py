"""Topics are followed so that what an outcome follows from is known, whenever it is written."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest

from answerbus.client.errors import BusUnavailable
from answerbus.topics import REQUESTS, Topic
from services.operators.adapters import shadowing
from services.operators.adapters.shadow import AT_ONCE
from services.operators.comparisons.live_draw import Drawn, LiveDraw
from services.operators.records.stored import Stored
from tests.unit.operators.comparisons.test_live_draw import attempt, outcome, request

LIMIT_S = 10.0
READS = 3  # of outcomes, of attempts, of requests
ROUNDS = 2


class Growing:
    """A reader of topics that get all records of a request at once, before the read `at`."""

    def __init__(self, records: Sequence[Stored], at: int, stop: asyncio.Event) -> None:
        self.unread, self.at, self.stop = [*records], at, stop
        self.reads = 0

    async def records(self, topics: Collection[Topic]) -> AsyncIterator[Stored]:
        if self.reads >= self.at:
            for one in self.unread:
                if one.topic in topics:
                    yield one
            self.unread = [one for one in self.unread if one.topic not in topics]
        self.reads += 1
        if self.reads == READS * ROUNDS:
            self.stop.set()


class Kept:
    def __init__(self) -> None:
        self.drawn: list[Drawn] = []

    def put(self, drawn: Drawn) -> None:
        self.drawn.append(drawn)


@pytest.mark.parametrize("at", range(READS + 1))
async def test_a_request_is_drawn_once_with_its_past_whenever_it_is_written(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadowing, "LOOK_S", 0)
    stop, kept = asyncio.Event(), Kept()
    reader: Any = Growing([request(), attempt(), outcome()], at, stop)
    shadows: Any = {"default": kept}
    await shadowing._follow(reader, _drawing(), shadows, asyncio.create_task(stop.wait()))
    (drawn,) = kept.drawn

    assert drawn.sampled.request is not None
    assert drawn.sampled.attempts.keys() == {1}


async def test_of_very_much_that_came_at_once_the_newest_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadowing, "OPEN_MAX", 2)
    records = [request(number) for number in range(5)]
    reader: Any = Growing(records, 0, asyncio.Event())
    kept = await shadowing._read(reader, (REQUESTS,), _drawing())

    assert [seen.key.request_id for seen in kept] == ["r-3", "r-4"]


class Hanging:
    """A shadow whose calls never end."""

    def __init__(self) -> None:
        self.asking = self.cut = 0
        self.has_ended = False

    async def ask_on(self, *_: object) -> None:
        self.asking += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.cut += 1

    def end(self) -> None:
        self.has_ended = True


@asynccontextmanager
async def _connected(*_: object, **__: object) -> AsyncIterator[Any]:
    yield mock.Mock()


@pytest.fixture
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("reading", "picking", "writing_comparisons"):
        monkeypatch.setattr(shadowing, name, _connected)


@pytest.mark.usefixtures("without_kafka")
async def test_a_call_that_hangs_is_given_a_moment_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadowing, "END_S", 0.01)
    stop, hanging = asyncio.Event(), Hanging()
    shadows: Any = {"default": hanging}

    async def until_stopped(*given: Any) -> None:
        stop.set()
        await given[-1]

    monkeypatch.setattr(shadowing, "_follow", until_stopped)
    async with asyncio.timeout(LIMIT_S):
        await shadowing.shadow(mock.Mock(), shadows, _drawing(), stop)

    assert hanging.has_ended
    assert hanging.cut == hanging.asking == AT_ONCE


@pytest.mark.usefixtures("without_kafka")
async def test_where_kafka_goes_away_that_is_said_and_calls_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hanging = Hanging()
    shadows: Any = {"default": hanging}

    async def away(*_: object) -> None:
        while hanging.asking < AT_ONCE:
            await asyncio.sleep(0)
        raise BusUnavailable("away")

    monkeypatch.setattr(shadowing, "_follow", away)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(BusUnavailable, match="away"):
            await shadowing.shadow(mock.Mock(), shadows, _drawing(), asyncio.Event())

    assert hanging.cut == AT_ONCE


def _drawing() -> LiveDraw:
    return LiveDraw({"default": 1.0}, lambda _: None)
