"""A queue that is fair by key: keys are served round robin, however many items one has; pure."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of one key keep their order; what `is_gone` is skipped when its turn comes."""

    def __init__(self, is_gone: Callable[[T], bool]) -> None:
        self._is_gone = is_gone
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        """How many keys have items."""
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
