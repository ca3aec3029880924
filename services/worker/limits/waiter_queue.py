"""Tasks that wait for something limited, served fairly by key."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.worker.core.limits.fair_queue import FairQueue

T = TypeVar("T")

KEYS_LOOKED_AT_MAX = 32  # for one of the same lane
PASSED_OVER_MAX = 16  # times in a row for one of the same lane


@dataclass(frozen=True, slots=True, eq=False)
class Waiter(Generic[T]):
    """A task that waits, what it asks for, and what it will be given; `lane` is its partition."""

    key: str
    tokens: int
    given: "asyncio.Future[T]"
    lane: int | None = None


class WaiterQueue(Generic[T]):
    """A key that may not be served now is passed over, and keeps its turn.

    What a lane was given back is best given to the same lane: the outcome of one request and the
    spend of the next share a transaction. So one of that lane goes before the first, if its key
    holds no more than that of the first, which waits for at most `PASSED_OVER_MAX` of them.
    """

    def __init__(
        self,
        may: Callable[[str], bool] = lambda _: True,
        held: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """`held` says how much of what is waited for a key has."""
        self._may, self._held = may, held
        self._waiting: FairQueue[Waiter[T]] = FairQueue(lambda waiter: waiter.given.done())
        self._in_turn: Waiter[T] | None = None
        self._passed_over = 0

    def join(self, key: str, tokens: int, lane: int | None = None) -> Waiter[T]:
        """Wait behind the others of the key."""
        waiter = Waiter(key, tokens, asyncio.get_running_loop().create_future(), lane)
        self._waiting.put(key, waiter)
        return waiter

    def first(self, lane: int | None = None) -> Waiter[T] | None:
        """The waiter whose turn it is, when this lane gave back; it goes on waiting."""
        found = self._waiting.next(self._may)
        if found is None:
            return None
        key, first = found
        self._in_turn = first
        if lane is None or first.lane == lane or self._passed_over >= PASSED_OVER_MAX:
            return first
        return self._of_lane(lane, self._held(key)) or first

    @property
    def is_empty(self) -> bool:
        """Whether none waits, also of those that may not be served now."""
        return self._waiting.next() is None

    def serve(self, waiter: Waiter[T], value: T) -> None:
        """Give what it waits for to one that `first` has named."""
        self._passed_over = 0 if waiter is self._in_turn else self._passed_over + 1
        self._waiting.serve(waiter.key)
        waiter.given.set_result(value)

    def _of_lane(self, lane: int, held_max: int) -> Waiter[T] | None:
        for key, waiter in self._waiting.ahead(KEYS_LOOKED_AT_MAX):
            if waiter.lane == lane and self._held(key) <= held_max and self._may(key):
                return waiter
        return None
