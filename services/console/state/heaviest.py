"""The heaviest of many names, in bounded memory: Space-Saving that drops many at once; pure."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

DAY_MINUTES = 24 * 60
_FILTER_BITS = 23  # 8 million bits are 1 MiB; after a million names, 5 % of new ones look known

NameT = TypeVar("NameT", bound=Hashable)


@dataclass(slots=True)
class Held:
    """A name with the minutes of its first and last record.

    `weight` is the most that it can weigh. `is_whole`: no earlier record of it was dropped, so that
    what was counted under it is exact.
    """

    weight: int
    first: int
    last: int
    is_whole: bool


Dropped = Sequence[tuple[NameT, Held]]


class Heaviest(Generic[NameT]):
    """Holds at most twice `kept` names; when there are more, it drops the lighter half.

    A new name starts with the weight that a dropped one can have had at most. So a name that has
    more than one part in `kept` of all weight is always held. Weights of the day before count half.
    """

    def __init__(self, kept: int) -> None:
        self._kept, self._floor = kept, 0
        self._held: dict[NameT, Held] = {}
        self._dropped, self._dropped_before = _Filter(), _Filter()
        self._day_ends = 0

    def __len__(self) -> int:
        return len(self._held)

    def take(self, name: NameT, weight: int, minute: int) -> Dropped[NameT]:
        """Add to the weight of a name; gives the names that are no longer held."""
        if minute >= self._day_ends:
            self._end_day(minute)
        held = self._held.get(name)
        if held is None:
            is_known = name in self._dropped or name in self._dropped_before
            held = self._held[name] = Held(self._floor, minute, minute, not is_known)
        held.weight += weight
        held.first, held.last = min(held.first, minute), max(held.last, minute)
        return self.shrink() if len(self._held) > 2 * self._kept else ()

    def shrink(self) -> Dropped[NameT]:
        ranked = sorted(self._held.items(), key=lambda pair: pair[1].weight, reverse=True)
        lighter = ranked[len(ranked) // 2 :]
        self._floor = max((held.weight for _, held in lighter), default=0)
        for name, _ in lighter:
            del self._held[name]
            self._dropped.add(name)
        return lighter

    def is_whole(self, name: NameT) -> bool:
        """Whether all records of a name were counted under it; not so if it is not held."""
        return name in self._held and self._held[name].is_whole

    def _end_day(self, minute: int) -> None:
        """What was dropped the day before yesterday is not counted any more."""
        self._day_ends = minute + DAY_MINUTES
        self._dropped, self._dropped_before = _Filter(), self._dropped
        self._floor //= 2
        for held in self._held.values():
            held.weight //= 2


class _Filter:
    """A Bloom filter: it may take a new name for one that was added, and never one for new."""

    def __init__(self) -> None:
        self._bits = bytearray()  # none until a name is added: most have none to remember

    def add(self, name: Hashable) -> None:
        self._bits = self._bits or bytearray(2**_FILTER_BITS // 8)
        for bit in _bits_of(name):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, name: Hashable) -> bool:
        bits = self._bits
        return bool(bits) and all(bits[bit >> 3] & 1 << (bit & 7) for bit in _bits_of(name))


def _bits_of(name: Hashable) -> Iterator[int]:
    digest = int.from_bytes(blake2b(repr(name).encode(), digest_size=8).digest(), "big")
    for _ in range(2):
        yield digest & (2**_FILTER_BITS - 1)
        digest >>= _FILTER_BITS
