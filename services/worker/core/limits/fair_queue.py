"""Fairness by key: a queue that serves keys in turn, and how much of a limit one may hold; pure."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of one key keep their order; what `is_gone` is skipped when its turn comes."""

    def __init__(self, is_gone: Callable[[T], bool]) -> None:
        self._is_gone = is_gone
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, item: T, *, first: bool = False) -> None:
        """Add an item behind, or before, the others of its key."""
        waiting = self._waiting.setdefault(key, deque())
        (waiting.appendleft if first else waiting.append)(item)

    def next(self, may: Callable[[str], bool] = lambda _: True) -> tuple[str, T] | None:
        """The first item of the first key that may be served, which stays; keys keep their turn."""
        gone: str | None = None
        while True:
            for key, waiting in self._waiting.items():
                if self._is_gone(waiting[0]):
                    gone = key
                    break
                if may(key):
                    return key, waiting[0]
            else:
                return None
            self._drop_first(gone)

    def ahead(self, most: int) -> Iterator[tuple[str, T]]:
        """The first items of the first keys, in their turn; what is gone is left out."""
        for key, waiting in islice(self._waiting.items(), most):
            if not self._is_gone(waiting[0]):
                yield key, waiting[0]

    def serve(self, key: str) -> None:
        """Take the first item of a key out; its others wait behind all other keys."""
        self._drop_first(key)
        if key in self._waiting:
            self._waiting.move_to_end(key)

    def _drop_first(self, key: str) -> None:
        waiting = self._waiting[key]
        waiting.popleft()
        if not waiting:
            del self._waiting[key]


SHARE_FACTOR: Final = 7  # times what is free: one workflow alone holds at most seven eighths
LIMIT_MIN: Final = 4  # of fewer places none can be kept free


def has_share(held: int, free: int, limit: int) -> bool:
    """Whether one that holds `held` of `limit` may have one more while `free` are free.

    The bound falls with what is free, so that the next to come finds a place however many have
    filled theirs before, and nothing stays unused while many want a little each.
    """
    return free > 0 and (limit < LIMIT_MIN or held < min(SHARE_FACTOR, limit - 1) * free)
