"""Steps in the background, one at a time: a new one takes the place of the one before."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

Step = Callable[[], Coroutine[None, None, None]]

CLEAN_UP_S = 60.0  # for a step that was cancelled; what it waits for then is bounded by less

_log = logging.getLogger(__name__)


class Steps:
    """The step before is cancelled, and the new one begins when it has cleaned up."""

    def __init__(self) -> None:
        self.current: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def start(self, step: Step) -> None:
        """Do this, and no longer what was under way."""
        self.halt()
        self.current = asyncio.create_task(self._take_turn(step))

    def halt(self) -> None:
        """Let what is under way end."""
        if self.current:
            cancel_once(self.current)

    async def _take_turn(self, step: Step) -> None:
        """A step that does not end must not keep its lane shut: the next one fences it off."""
        try:
            async with asyncio.timeout(CLEAN_UP_S):
                await self._turn.acquire()
        except TimeoutError:
            _log.error("a step of a lane did not end in %.0f s; the next begins", CLEAN_UP_S)
            self._turn = asyncio.Lock()
            await self._turn.acquire()
        turn = self._turn
        try:
            await step()
        finally:
            turn.release()


def cancel_once(task: asyncio.Task[None]) -> None:
    """A second cancellation would interrupt the cleaning up that the first has begun."""
    if not task.cancelling():
        task.cancel()
