"""Loads the dead letters of a broker to the end of their topics, with a progress bar."""

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from answerbus.client.bus import Bus
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, Topic
from services.operators.adapters.reader import Reader, reading
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.summary import summarize
from services.replay.progress import progress


@dataclass(slots=True)
class Loaded:
    """The dead letters so far, and the reader that goes on from there."""

    reader: Reader
    letters: DeadLetterIndex = field(default_factory=DeadLetterIndex)

    async def catch_up(self) -> None:
        """Read what has come since. Raises BusUnavailable."""
        await _fold(self.reader, self.letters, "reading dead letters")

    async def still_open(self, chosen: Iterable[DeadLetterRow]) -> list[DeadLetterRow]:
        """Those that are still open; raises BusUnavailable.

        Ask once there is a writer: from then on no other can settle any.
        """
        await self.catch_up()
        return [letter for letter in chosen if letter.status == "open"]


@asynccontextmanager
async def loading(
    bus: Bus, topics: Collection[Topic] = (DEAD_LETTERS,), *, models: bool = False
) -> AsyncIterator[Loaded]:
    """All dead letters as they are now, on request with the models that were asked.

    Raises BusUnavailable.
    """
    async with reading(bus, topics) as reader:
        loaded = Loaded(reader)
        await loaded.catch_up()
        if models:
            async with reading(bus, (ATTEMPTS,)) as attempts:
                await _fold(attempts, loaded.letters, "reading attempts")
        yield loaded


async def loaded_once(
    bus: Bus, topics: Collection[Topic] = (DEAD_LETTERS,), *, models: bool = False
) -> DeadLetterIndex:
    """The same, for those who need no more than that."""
    async with loading(bus, topics, models=models) as loaded:
        return loaded.letters


async def _fold(reader: Reader, letters: DeadLetterIndex, what: str) -> None:
    with progress(what, await reader.left()) as advance:
        async for batch in reader.to_end():
            for stored in batch:
                letters.take(summarize(stored))
            advance(len(batch))
