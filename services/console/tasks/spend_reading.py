"""Reads what calls cost into groups, for a command and for pages; pages wait for their turn."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from answerbus.client.bus import Bus
from answerbus.topics import ATTEMPTS, REFUSALS, RESULTS, Topic
from services.console.state.spend_groups import SpendGroups, Steps
from services.operators.adapters.reader import reading
from services.operators.records.summary import summarize

READ_S = 20.0  # for a page, with the wait for others


async def read_spend(bus: Bus, groups: SpendGroups) -> bool:
    """Take all of its time; whether attempts since its beginning may be deleted already.

    Outcomes are read where they name contracts, also those that came after the time: they may name
    one of a call within it. Raises BusUnavailable.
    """
    outcomes: Sequence[Topic] = (RESULTS, REFUSALS) if "contract" in groups.keys else ()
    since = datetime.fromtimestamp(groups.steps.first_ms / 1000, UTC)
    async with reading(bus, (ATTEMPTS, *outcomes), since=since) as reader:
        is_cut = await reader.is_cut(ATTEMPTS)
        async for stored in reader.records():
            groups.take(summarize(stored))
    return is_cut


class SpendReader:
    """One reading at a time, and each bounded."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._turn = bus, asyncio.Lock()

    async def read(self, keys: Sequence[str], steps: Steps) -> tuple[SpendGroups, bool]:
        """Raises BusUnavailable, and TimeoutError where it takes too long."""
        groups = SpendGroups(keys, steps)
        async with asyncio.timeout(READ_S), self._turn:
            return groups, await read_spend(self._bus, groups)
