"""The feed when its connection is made again: a writer must not see the old state."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from aiokafka import TopicPartition

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.topics import Topic
from services.console.tasks import feed as feed_module
from services.console.tasks.feed import Feed
from services.operators.adapters.reader import Reader
from services.operators.records.stored import Stored
from tests.unit.console.context import NOWHERE, OPERATOR, site
from tests.unit.operators.stored_examples import stored

DEAD_LETTER = stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter")
DISMISSED = stored("dismissed/dismissed", offset=1, dead_letter_id="x.dead-letter")
OTHER_TOPICS_BATCHES = 50


class Script(Reader):
    """Gives the letters first and the other topics, which are long, after them."""

    def __init__(self, dead_letters: Sequence[Stored], *, breaks: bool) -> None:
        self._dead_letters, self._breaks = dead_letters, breaks
        self.gave_dead_letters = asyncio.Event()

    async def to_end(
        self,
        topics: Collection[Topic] | None = None,
        partition: int | None = None,
    ) -> AsyncIterator[Sequence[Stored]]:
        yield self._dead_letters
        self.gave_dead_letters.set()
        for _ in range(OTHER_TOPICS_BATCHES):
            yield []

    async def follow(self) -> AsyncIterator[Sequence[Stored]]:
        while not self._breaks:
            yield []
        raise BusUnavailable("away")

    async def end(
        self,
        topics: Collection[Topic] | None = None,
        partition: int | None = None,
    ) -> Mapping[TopicPartition, int]:
        return {}

    async def has_reached(self, end: Mapping[TopicPartition, int]) -> bool:
        return self.gave_dead_letters.is_set()

    async def left(self) -> int:
        return 0


@pytest.mark.wide
async def test_dead_letters_are_reached_only_in_the_picture_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (
        Script([DEAD_LETTER], breaks=True),
        Script([DEAD_LETTER, DISMISSED], breaks=False),
    )
    scripts = iter([first, second])

    @asynccontextmanager
    async def reading(_: Bus, __: Collection[Topic], **___: object) -> AsyncIterator[Reader]:
        yield next(scripts)

    monkeypatch.setattr(feed_module, "reading", reading)
    monkeypatch.setattr(feed_module, "AGAIN_S", 0.0)
    feed = Feed(NOWHERE)
    running = asyncio.create_task(feed.run())
    try:
        await second.gave_dead_letters.wait()

        await feed.catch_up_with_dead_letters()

        assert [dead_letter.status for dead_letter in feed.state.dead_letters] == ["dismissed"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.wide
async def test_dead_letters_are_counted_before_the_topics_are_told_as_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def reading(_: Bus, __: Collection[Topic], **___: object) -> AsyncIterator[Reader]:
        yield Script([DEAD_LETTER], breaks=False)

    async with site() as here:
        feed = here.context.feed
        feed.progress.caught_up = False
        monkeypatch.setattr(feed_module, "reading", reading)
        running = asyncio.create_task(feed.run())
        await feed.catch_up_with_dead_letters()
        monkeypatch.setattr(feed.state.dead_letters.__class__, "__iter__", None)

        response = await here.get("/letters", await here.log_in(OPERATOR))
        text = await response.text()

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert "<b>1</b> dead letter" in text
