"""A queue that serves tenants and their workflows in turn, and shares of a limit; pure."""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
K = TypeVar("K")


class FairKey(NamedTuple):
    """The owner of a turn: a tenant, and within it a workflow; "" where a request has none."""

    tenant: str
    workflow: str


class FairQueue(Generic[T]):
    """Items of one workflow keep their order; what `is_gone` is skipped when its turn comes."""

    def __init__(self, is_gone: Callable[[T], bool]) -> None:
        self._is_gone = is_gone
        self._waiting: OrderedDict[str, OrderedDict[FairKey, deque[T]]] = OrderedDict()
        self._workflows = 0

    def __len__(self) -> int:
        """How many workflows wait."""
        return self._workflows

    def put(self, key: FairKey, item: T, *, first: bool = False) -> None:
        """Add an item behind, or before, the others of its workflow."""
        if (workflows := self._waiting.get(key.tenant)) is None:
            workflows = self._waiting[key.tenant] = OrderedDict()
        if (waiting := workflows.get(key)) is None:
            waiting = workflows[key] = deque()
            self._workflows += 1
        (waiting.appendleft if first else waiting.append)(item)

    def next(
        self,
        may: Callable[[FairKey], bool] = lambda _: True,
        may_tenant: Callable[[str], bool] = lambda _: True,
    ) -> tuple[FairKey, T] | None:
        """The first item of the first key that may be served, which stays; keys keep their turn."""
        while found := self._first(may, may_tenant):
            if not self._is_gone(found[1]):
                return found
            self._drop_first(found[0])
        return None

    def _first(
        self, may: Callable[[FairKey], bool], may_tenant: Callable[[str], bool]
    ) -> tuple[FairKey, T] | None:
        for key, item in self._firsts(may_tenant):
            if self._is_gone(item) or may(key):
                return key, item
        return None

    def _firsts(
        self, may_tenant: Callable[[str], bool] = lambda _: True
    ) -> Iterator[tuple[FairKey, T]]:
        for tenant, workflows in self._waiting.items():
            if may_tenant(tenant):
                for key, waiting in workflows.items():
                    yield key, waiting[0]

    def ahead(self, most: int) -> Iterator[tuple[FairKey, T]]:
        """The first items of the first keys, in their turn, also those that are gone."""
        return islice(self._firsts(), most)

    def serve(self, key: FairKey) -> None:
        """Take the first item of a key out; its others wait behind all other keys."""
        self._drop_first(key)
        if workflows := self._waiting.get(key.tenant):
            self._waiting.move_to_end(key.tenant)
            if key in workflows:
                workflows.move_to_end(key)

    def _drop_first(self, key: FairKey) -> None:
        workflows = self._waiting[key.tenant]
        waiting = workflows[key]
        waiting.popleft()
        if not waiting:
            del workflows[key]
            self._workflows -= 1
        if not workflows:
            del self._waiting[key.tenant]


SHARE_FACTOR: Final = 7  # times what is free: one key alone holds at most seven eighths
LIMIT_MIN: Final = 4  # of fewer places none can be kept free


def has_share(held: int, free: int, limit: int) -> bool:
    """Whether one that holds `held` of `limit` may have one more while `free` are free.

    The bound falls with what is free, so that the next to come finds a place however many have
    filled theirs before, and nothing stays unused while many want a little each.
    """
    return free > 0 and (limit < LIMIT_MIN or held < min(SHARE_FACTOR, limit - 1) * free)


def count_down(counter: Counter[K], key: K) -> None:
    """One less; keys of nothing are forgotten, since requests may name any."""
    if left := counter[key] - 1:
        counter[key] = left
    else:
        counter.pop(key)
