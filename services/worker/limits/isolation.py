"""Concurrency of suspects: one lane at a time, and at last alone.

A lone call keeps all others waiting: for the calls that run to end, and for its own. Those that
waited for it have their turn then, so that they wait for one lone call, not for those of all lanes.
"""

import asyncio
from dataclasses import dataclass

OTHERS_S_MIN = 1.0  # of their turn, which else is as long as the lone call was


@dataclass(frozen=True, slots=True)
class IsolationLevel:
    """`lane` is the one whose suspect calls; `alone` excludes others; lower ranks go first."""

    lane: int | None = None
    alone: bool = False
    rank: int = 0


SHARED = IsolationLevel()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    level: IsolationLevel
    given: "asyncio.Future[None]"


class Isolation:
    """The calls of one worker. Most go on side by side; only suspects must ever wait here."""

    def __init__(self) -> None:
        self._others = 0
        self._suspect_calls = 0
        self._suspect_lane: int | None = None
        self._is_alone = False
        self._began_alone = 0.0
        self._next_alone_from = 0.0  # loop time
        self._waiting: list[_Waiter] = []

    def enters_at_once(self, level: IsolationLevel = SHARED) -> bool:
        """Whether it may call without a wait; then `leave` must follow."""
        if self._waiting or not self._may(level):
            return False
        self._count(level, 1)
        return True

    async def enter(self, level: IsolationLevel = SHARED) -> None:
        """Wait until it may call, as long as it takes; `leave` must follow."""
        if self.enters_at_once(level):
            return
        waiter = _Waiter(level, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._let_in()
        try:
            await waiter.given
        except asyncio.CancelledError:
            if waiter.given.done() and not waiter.given.cancelled():
                self.leave(level)
            else:
                self._waiting.remove(waiter)
                self._let_in()
            raise

    def leave(self, level: IsolationLevel = SHARED) -> None:
        self._count(level, -1)
        self._let_in()

    def _let_in(self) -> None:
        for waiter in sorted(self._waiting, key=lambda found: found.level.rank):
            if not waiter.given.done() and self._may(waiter.level):
                self._waiting.remove(waiter)
                self._count(waiter.level, 1)
                waiter.given.set_result(None)

    def _may(self, level: IsolationLevel) -> bool:
        if self._is_alone:
            return False
        if level.alone:
            is_free = self._others == 0 and self._suspect_calls == 0
            return is_free and not self._is_others_turn() and self._is_next(level)
        if self._next_is_alone():
            return False
        return level.lane is None or self._suspect_calls == 0 or self._suspect_lane == level.lane

    def _next_is_alone(self) -> bool:
        """Whether one that must be alone has its turn once the calls that run have ended."""
        ranked = self._suspects()
        is_next = bool(ranked) and ranked[0].alone and self._suspect_calls == 0
        return is_next and not self._is_others_turn()

    def _is_others_turn(self) -> bool:
        return asyncio.get_running_loop().time() < self._next_alone_from

    def _is_next(self, level: IsolationLevel) -> bool:
        ranked = self._suspects()
        return not ranked or ranked[0].rank >= level.rank

    def _suspects(self) -> list[IsolationLevel]:
        if not self._waiting:
            return []
        waiting = (w.level for w in self._waiting if not w.given.done())
        suspect = (level for level in waiting if level.alone or level.lane is not None)
        return sorted(suspect, key=lambda level: level.rank)

    def _count(self, level: IsolationLevel, by: int) -> None:
        if level.alone:
            self._change_alone(is_alone=by > 0)
        elif level.lane is not None:
            self._suspect_calls += by
            self._suspect_lane = level.lane
        else:
            self._others += by

    def _change_alone(self, *, is_alone: bool) -> None:
        self._is_alone, loop = is_alone, asyncio.get_running_loop()
        if is_alone:
            self._began_alone = loop.time()
            return
        if any(waiter.level == SHARED for waiter in self._waiting):
            turn_s = max(OTHERS_S_MIN, loop.time() - self._began_alone)
            self._next_alone_from = loop.time() + turn_s
            loop.call_at(self._next_alone_from, self._let_in)
