"""How long things took, counted in buckets that grow by a quarter: right to 12 %; pure."""

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct

_FIRST_MS, _GROWTH, _BUCKETS = 10.0, 1.25, 50  # up to ten minutes, and one bucket beyond
_COUNT_BITS = 32
_COUNTS = Struct(f"<{_BUCKETS + 1}I")
EDGES_MS = tuple(_FIRST_MS * _GROWTH**n for n in range(_BUCKETS))


class Histogram:
    """All counts are in one integer, 32 bits each: a day's minutes are added up for one page."""

    __slots__ = ("packed",)

    def __init__(self) -> None:
        self.packed = 0

    def add(self, ms: float) -> None:
        self.packed += 1 << bisect_left(EDGES_MS, ms) * _COUNT_BITS

    def merge(self, other: "Histogram") -> None:
        self.packed += other.packed

    @property
    def counts(self) -> Sequence[int]:
        """`counts[n]` are those up to `EDGES_MS[n]`; the last bucket has no end."""
        return _COUNTS.unpack(self.packed.to_bytes(_COUNTS.size, "little"))

    @property
    def total(self) -> int:
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float | None:
        """The time that this share of them did not exceed; None if there are none."""
        counts = self.counts
        total = sum(counts)
        if not total:
            return None
        rank, seen = share * total, 0
        for number, count in enumerate(counts):
            if count and seen + count >= rank:
                return _within(number, (rank - seen) / count)
            seen += count
        return EDGES_MS[-1]  # not reached: all of them are seen by then

    def coarse(self, step: int) -> Sequence[int]:
        """The counts of `step` buckets each, for a picture."""
        counts = self.counts
        return tuple(sum(counts[n : n + step]) for n in range(0, len(counts), step))


def _within(number: int, share: float) -> float:
    if number == len(EDGES_MS):
        return EDGES_MS[-1]
    below = EDGES_MS[number - 1] if number else 0.0
    return below + (EDGES_MS[number] - below) * share
