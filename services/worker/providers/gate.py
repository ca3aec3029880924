"""How much of one provider may be used at once, and when to leave it alone: slots and a breaker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.worker.core.reply import (
    Answered,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)

FAILURES_BEFORE_OPEN = 5  # in a row, of calls that ran into the provider's own faults
PAUSE_FIRST_S = 1.0
PAUSE_FACTOR = 2.0
PAUSE_MAX_S = 60.0
PAUSE_TOLD_MAX_S = 600.0  # a provider that names a longer pause is probed all the same
SICK_PAUSE_S = 15.0  # a broken set-up is probed this often


class Gate:
    """Slots for calls in flight, and a breaker that delays callers and never fails them.

    While the breaker is open nobody passes; then one caller at a time probes, until one is served.
    """

    def __init__(self, slots: int) -> None:
        self._slots = asyncio.Semaphore(slots)
        self._probe = asyncio.Lock()
        self._failures = 0
        self._open_until = 0.0
        self._tripped = False
        self.sick: str | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and for the breaker; as long as it takes."""
        async with self._slots:
            if not self._tripped:
                yield
                return
            async with self._probe:
                while self._tripped and (pause := self._open_until - _now()) > 0:
                    await asyncio.sleep(pause)
                if self._tripped:
                    yield
                    return
            yield

    def report(self, reply: Reply) -> None:
        """Learn from a reply."""
        match reply:
            case Answered() | Refused() | Truncated():
                self._failures, self._tripped, self.sick = 0, False, None
            case Throttled(retry_after_s=told_s) if told_s is not None:
                self._trip(min(told_s, PAUSE_TOLD_MAX_S))
            case Throttled():
                self._fail(limit=1)
            case Rejected(scope="profile"):
                self.sick = f"rejected: status {reply.status}, code {reply.code}"
                self._trip(SICK_PAUSE_S)
            case Rejected():
                self._failures, self._tripped = 0, False
            case Unavailable(ran=False):
                self._fail(limit=1)
            case Unavailable() | TimedOut():
                self._fail(limit=FAILURES_BEFORE_OPEN)

    def _fail(self, limit: int) -> None:
        if self._tripped and _now() < self._open_until:
            return  # of a call that began before: hundreds of them are one fault, not hundreds
        self._failures += 1
        if self._failures >= limit or self._tripped:
            growth = PAUSE_FACTOR ** min(self._failures - 1, 16)
            self._trip(min(PAUSE_FIRST_S * growth, PAUSE_MAX_S))

    def _trip(self, pause_s: float) -> None:
        self._tripped = True
        self._open_until = max(self._open_until, _now() + pause_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
