"""Lets the other tasks of an event loop have their turn while many items are worked on."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

TURN_S_MAX: Final = 0.01  # of work on items; the one under way is finished

T = TypeVar("T")


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a pause whenever the work on them has taken TURN_S_MAX.

    Time counts, not items: one record may take as long as a thousand others.
    """
    began = time.perf_counter()
    for item in items:
        if time.perf_counter() - began >= TURN_S_MAX:
            await asyncio.sleep(0)
            began = time.perf_counter()
        yield item
