"""The letters of a broker, read to the end of their topics, with a bar for those who wait."""

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from answerbus.client.bus import Bus
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, Topic
from services.letters.fold import Letters
from services.letters.letter import Letter
from services.reading.reader import Reader, reading
from services.replay.progress import progress


@dataclass(slots=True)
class Loaded:
    """The letters so far, and the reader that goes on from there."""

    reader: Reader
    letters: Letters = field(default_factory=Letters)

    async def catch_up(self) -> None:
        """Read what has come since. Raises BusUnavailable."""
        await _fold(self.reader, self.letters, "reading dead letters")

    async def still_open(self, chosen: Iterable[Letter]) -> list[Letter]:
        """Those that nobody has settled by now; raises BusUnavailable.

        Ask once there is a writer: from then on nobody else can settle any.
        """
        await self.catch_up()
        return [letter for letter in chosen if letter.status == "open"]


@asynccontextmanager
async def loading(
    bus: Bus, topics: Collection[Topic] = (DEAD_LETTERS,), *, models: bool = False
) -> AsyncIterator[Loaded]:
    """All letters as they are now, on request with the models that were asked.

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
) -> Letters:
    """The same, for those who need no more than that."""
    async with loading(bus, topics, models=models) as loaded:
        return loaded.letters


async def _fold(reader: Reader, letters: Letters, what: str) -> None:
    with progress(what, await reader.left()) as advance:
        async for batch in reader.to_end():
            for stored in batch:
                letters.take(stored)
            advance(len(batch))
