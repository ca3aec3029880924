"""Steps in the background, one at a time: a new one takes the place of the one before."""

import asyncio
from collections.abc import Callable, Coroutine

Step = Callable[[], Coroutine[None, None, None]]


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
        async with self._turn:
            await step()


def cancel_once(task: asyncio.Task[None]) -> None:
    """A second cancellation would interrupt the cleaning up that the first has begun."""
    if not task.cancelling():
        task.cancel()
