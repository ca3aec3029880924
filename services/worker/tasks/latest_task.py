"""Background steps, one at a time: a new one replaces the one before."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from weakref import WeakSet

from answerbus.client.bounded import was_cancelled

Work = Callable[[], Coroutine[None, None, None]]

CLEAN_UP_S = 60.0  # for a step that was cancelled; what it waits for then is bounded by less
AGAIN_S = 1.0  # until a step that ended by itself is done again

_log = logging.getLogger(__name__)


class LatestTask:
    """The step before is cancelled, and the new one begins when it has cleaned up.

    A step ends when it has done its work or is cancelled by its successor. One that ends otherwise
    is done again: a lane whose step is gone would stay where it is for good.
    """

    def __init__(self) -> None:
        self.current: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._cancellation = Cancellation()

    def start(self, work: Work) -> None:
        """Do this, and no longer what was under way."""
        self.cancel()
        self.current = asyncio.create_task(self._take_turn(work))

    def cancel(self) -> None:
        """Let what is under way end."""
        if self.current:
            self._cancellation.of(self.current)

    async def _take_turn(self, work: Work) -> None:
        """A step that does not end must not keep its lane shut: the next one fences it off."""
        try:
            async with asyncio.timeout(CLEAN_UP_S):
                await self._turn.acquire()
        except TimeoutError:
            _log.error("lane step timed out after %.0f s, starting the next", CLEAN_UP_S)
            self._turn = asyncio.Lock()
            await self._turn.acquire()
        turn = self._turn
        try:
            while not await _is_done(work):
                await asyncio.sleep(AGAIN_S)
        finally:
            turn.release()


async def _is_done(work: Work) -> bool:
    """Whether it came to its end. Raises CancelledError if it was cancelled."""
    try:
        await work()
    except BaseException as error:
        if was_cancelled(error):
            raise
        _log.exception("lane step failed, retrying")
        return False
    return True


class Cancellation:
    """Cancels a task once: a second time would interrupt the cleaning up that the first began.

    The count of cancellations does not show it: its own time-outs count as well.
    """

    def __init__(self) -> None:
        self._cancelled: WeakSet[asyncio.Task[None]] = WeakSet()

    def of(self, task: "asyncio.Task[None]") -> None:
        """Cancel the task, unless it was cancelled here before."""
        if task not in self._cancelled:
            self._cancelled.add(task)
            task.cancel()
