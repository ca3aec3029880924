"""The one task that reads the topics into the state, in steps short enough for the pages."""

import asyncio
import gc
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.turns import in_turns
from answerbus.topics import APPROVALS, CONTROLS, DEAD_LETTERS, RUNS, STEPS, TOPICS
from services.console.state.console_state import ConsoleState
from services.operators.adapters.reader import Reader, reading
from services.operators.records.stored import Stored

AGAIN_S = 5.0
REACH_DEAD_LETTERS_S = 60.0
PROGRESS_S = 0.5
# New objects before they are searched for garbage, such searches before the older, and of those
# before all: one page may make a million objects, none of them in a cycle.
SEARCHES = (100_000, 20, 100)

AGENTS_TOPICS = (
    STEPS,
    APPROVALS,
    CONTROLS,
    RUNS,
)  # read where they are: not every deployment has agents
FOLDED_TOPICS = (*TOPICS, *AGENTS_TOPICS)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """How far reading has come: offsets left and in all at the start, and what is wrong, if any."""

    left: int = 0
    total: int = 0
    caught_up: bool = False
    error: str | None = None

    @property
    def percent(self) -> int:
        if self.caught_up:
            return 100
        return min(99, 100 * (self.total - self.left) // self.total) if self.total else 0


def _settle() -> None:
    """Exempt what stays from garbage collection: it took 0.2 s at 100,000 dead letters.

    What is garbage by now goes first, and what is not a cycle is freed all the same.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SEARCHES)


class Feed:
    """`state` is replaced by a new one when the connection was made again."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.state = ConsoleState()
        self.progress = Progress()
        self._reader: Reader | None = None  # the one that keeps `state` whole, once it is that
        self._folded = asyncio.Event()  # a new one for each batch

    async def run(self) -> None:
        """Read for ever. A broker that is away is tried again; the pages say so meanwhile."""
        while True:
            try:
                async with reading(self._bus, TOPICS, optional=AGENTS_TOPICS) as reader:
                    await self._read(reader)
            except BusUnavailable as error:
                _log.warning("reading the topics stopped, again in %g s: %s", AGAIN_S, error)
                self.progress.error, self._reader = str(error), None
                await asyncio.sleep(AGAIN_S)

    async def catch_up_with_dead_letters(self) -> None:
        """Wait until all dead letters written by now are in the state. Raises TimeoutError."""
        async with asyncio.timeout(REACH_DEAD_LETTERS_S):
            while not await self._have_reached():
                pass  # the connection was made again meanwhile, with another state

    async def _have_reached(self) -> bool:
        while (reader := self._reader) is None:
            await self._folded.wait()
        end = await reader.end((DEAD_LETTERS,))
        while not await reader.has_reached(end):
            await self._folded.wait()
        # What was read last may still be on its way into the state.
        await self._folded.wait()
        return reader is self._reader

    async def _read(self, reader: Reader) -> None:
        state = ConsoleState()
        left = await reader.left()
        progress = Progress(left, left)
        if not self.progress.caught_up:  # else the former state is shown until this one is whole
            self.state, self.progress = state, progress
        measured = time.monotonic()
        async for batch in reader.to_end():
            await self._fold(state, batch)
            if time.monotonic() - measured > PROGRESS_S:
                _settle()
                progress.left, measured = await reader.left(), time.monotonic()
        for _ in state.group_cache.count_ahead():
            await asyncio.sleep(0)  # let the pages in
        _settle()
        progress.caught_up = True
        self.state, self.progress, self._reader = state, progress, reader
        async for batch in reader.follow():
            await self._fold(state, batch)

    async def _fold(self, state: ConsoleState, batch: Sequence[Stored]) -> None:
        async for stored in in_turns(batch):
            state.take(stored)
        folded, self._folded = self._folded, asyncio.Event()
        folded.set()
        await asyncio.sleep(0)  # let the pages in
