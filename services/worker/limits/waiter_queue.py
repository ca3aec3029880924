"""Tasks that wait for something limited, served fairly by key."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.worker.core.limits.fair_queue import FairQueue

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Waiter(Generic[T]):
    """A task that waits, what it asks for, and what it will be given."""

    key: str
    tokens: int
    given: "asyncio.Future[T]"


class WaiterQueue(Generic[T]):
    """A key that may not be served now is passed over, and keeps its turn."""

    def __init__(self, may: Callable[[str], bool] = lambda _: True) -> None:
        self._may = may
        self._waiting: FairQueue[Waiter[T]] = FairQueue(lambda waiter: waiter.given.done())

    def join(self, key: str, tokens: int) -> Waiter[T]:
        """Wait behind the others of the key."""
        waiter = Waiter(key, tokens, asyncio.get_running_loop().create_future())
        self._waiting.put(key, waiter)
        return waiter

    def first(self) -> Waiter[T] | None:
        """The waiter whose turn it is; it goes on waiting."""
        found = self._waiting.next(self._may)
        return found and found[1]

    @property
    def is_empty(self) -> bool:
        """Whether none waits, also of those that may not be served now."""
        return self._waiting.next() is None

    def serve(self, gift: T) -> None:
        """Give the first what it waits for."""
        waiter = self.first()
        if waiter is None:
            raise IndexError("none is waiting")
        self._waiting.serve(waiter.key)
        waiter.given.set_result(gift)
