"""Measures the event loop: its lag, and stalls of the whole process."""

import asyncio
from collections import deque
from dataclasses import dataclass

TICK_S = 0.25
STALL_S = 0.5  # a tick that is so late had to wait for other work
STANDSTILL_S = 5.0  # no code of ours takes so long: the process was stopped, or its machine
REMEMBERED_S = 60.0


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which nothing happened; seconds, and loop time."""

    lasted_s: float
    ended_at: float


class LoopMonitor:
    """Ticks. A question while a tick is late counts as a tick, so that an answer is never late."""

    def __init__(self) -> None:
        self.stalls = 0
        self.last_stall: Stall | None = None  # the last
        self.ticked_at: float = asyncio.get_running_loop().time()
        self._lately: deque[Stall] = deque()
        self._due_at = self.ticked_at + TICK_S

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()
            self.ticked_at = asyncio.get_running_loop().time()

    def tick(self) -> None:
        now = asyncio.get_running_loop().time()
        late_s, self._due_at = now - self._due_at, now + TICK_S
        if late_s < STALL_S:
            return
        stall = Stall(late_s, now)
        self.stalls += 1
        self._lately.append(stall)
        if late_s >= STANDSTILL_S:
            self.last_stall = stall

    def worst_s(self) -> float:
        """The longest stall of the last minute."""
        now = asyncio.get_running_loop().time()
        while self._lately and now - self._lately[0].ended_at > REMEMBERED_S:
            self._lately.popleft()
        return max((stall.lasted_s for stall in self._lately), default=0.0)
