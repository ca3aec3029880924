"""Topics are followed so that what an outcome follows from is known, whenever it is written."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import pytest

from answerbus.topics import Topic
from services.operators.adapters import shadowing
from services.operators.comparisons.live_draw import Drawn, LiveDraw
from services.operators.records.stored import Stored
from tests.unit.operators.comparisons.test_live_draw import attempt, outcome, request

READS = 3  # of outcomes, of attempts, of requests
ROUNDS = 2


class Growing:
    """A reader of topics that get all records of a request at once, before the read `at`."""

    def __init__(self, records: Sequence[Stored], at: int, stop: asyncio.Event) -> None:
        self.unread, self.at, self.stop = [*records], at, stop
        self.reads = 0

    async def to_end(self, topics: Collection[Topic]) -> AsyncIterator[list[Stored]]:
        if self.reads >= self.at:
            yield [one for one in self.unread if one.topic in topics]
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
    draw = LiveDraw({"default": 1.0}, lambda _: None)
    await shadowing._follow(reader, draw, shadows, asyncio.create_task(stop.wait()))
    (drawn,) = kept.drawn

    assert drawn.sampled.request is not None
    assert drawn.sampled.attempts.keys() == {1}
