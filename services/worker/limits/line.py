"""A line of waiters, served round robin over their keys, so that a crowd keeps nobody waiting."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Waiter(Generic[T]):
    """Somebody in the line, what they ask for, and what they will be given."""

    key: str
    tokens: int
    given: "asyncio.Future[T]"


class Line(Generic[T]):
    """First is who has waited longest of the key whose turn it is; who gave up is passed over.

    A key that may not be served now is passed over, too, and keeps its turn.
    """

    def __init__(self, may: Callable[[str], bool] = lambda _: True) -> None:
        self._may = may
        self._waiting: OrderedDict[str, deque[Waiter[T]]] = OrderedDict()

    def join(self, key: str, tokens: int) -> Waiter[T]:
        """Take a place at the end of the key's own line."""
        waiter = Waiter(key, tokens, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, deque()).append(waiter)
        return waiter

    def first(self) -> Waiter[T] | None:
        """Whose turn it is; they stay in the line."""
        return self._first(self._may)

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits, be it that they may not be served now."""
        return self._first(lambda _: True) is None

    def serve(self, gift: T) -> None:
        """Give the first what they wait for; the others of the same key queue up behind all."""
        waiter = self.first()
        if waiter is None:
            raise IndexError("nobody is waiting")
        line = self._waiting[waiter.key]
        self._drop_first(waiter.key, line)
        if line:
            self._waiting.move_to_end(waiter.key)
        waiter.given.set_result(gift)

    def _first(self, may: Callable[[str], bool]) -> Waiter[T] | None:
        gave_up: str | None = None
        while True:
            for key, line in self._waiting.items():
                if line[0].given.done():
                    gave_up = key
                    break
                if may(key):
                    return line[0]
            else:
                return None
            self._drop_first(gave_up, self._waiting[gave_up])

    def _drop_first(self, key: str, line: deque[Waiter[T]]) -> None:
        line.popleft()
        if not line:
            del self._waiting[key]
