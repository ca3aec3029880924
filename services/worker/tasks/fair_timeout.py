"""A time-out that lets pending I/O complete first after a stall of the event loop.

A process that was stopped, or a loop that was blocked, finds its timers due and its sockets full.
Timers come first then (an interrupted `epoll_wait` gives no events at all), and an answer that is
there, and paid for, would be thrown away. A timer that comes late knows that this has happened.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import Any

LATE_S = 0.1  # a timer that is later than this had to wait for a loop that stood still
GRACE_S = 1.0  # for I/O to have its turn then, over many turns of the loop
EXTENSIONS_MAX = 10  # a loop that is blocked again and again must not make a time-out endless


class FairTimeout:
    """Like `asyncio.timeout`, but for the grace after a standstill. Raises TimeoutError.

    A class, since each call of a provider enters one: a generator takes a third more time.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._bound = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._bound.__aenter__()
        self._timer = FairTimer(self._delay_s, self._expire)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        del self._timer  # each knows the other: they would stay until a search for garbage
        await self._bound.__aexit__(kind, error, trace)

    def _expire(self) -> None:
        self._bound.reschedule(asyncio.get_running_loop().time())  # it ends behind what is ready


async def wait_fairly(tasks: Collection["asyncio.Task[Any]"], limit_s: float) -> None:
    """Wait until all have ended, or for so long; they are not cancelled."""
    with suppress(TimeoutError):
        async with FairTimeout(limit_s):
            await asyncio.wait(tasks)


class FairTimer:
    """Calls `due` when its time has come, and has come on time."""

    def __init__(self, delay_s: float, due: Callable[[], None]) -> None:
        self._call = due
        self._loop = asyncio.get_running_loop()
        self._extensions = 0
        self._set(self._loop.time() + delay_s)

    def cancel(self) -> None:
        self._handle.cancel()

    def _set(self, due_at: float) -> None:
        self._due_at = due_at
        self._handle = self._loop.call_at(due_at, self._due)

    def _due(self) -> None:
        now = self._loop.time()
        if now - self._due_at > LATE_S and self._extensions < EXTENSIONS_MAX:
            self._extensions += 1
            self._set(now + GRACE_S)
        else:
            self._call()
