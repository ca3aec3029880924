"""Times of requests by offset, thinned out: the age of the request where a lane is; pure."""

from array import array
from bisect import bisect_right

STEP_MS = 1_000  # requests that are closer together share a sample
SAMPLES_MAX = 4_096  # of a partition
NEWEST = 1_024  # samples that are never thinned
OLD_STEP_MS = 60_000  # between samples that are older, and twice as much whenever that is too many


class RequestTimes:
    """The requests of one partition, in the order of their offsets."""

    __slots__ = ("_at_ms", "_offsets", "_old_step_ms")

    def __init__(self) -> None:
        self._offsets, self._at_ms = array("q"), array("q")
        self._old_step_ms = OLD_STEP_MS

    def take(self, offset: int, at_ms: int) -> None:
        if self._offsets and (offset <= self._offsets[-1] or at_ms < self._at_ms[-1] + STEP_MS):
            return
        self._offsets.append(offset)
        self._at_ms.append(at_ms)
        if len(self._offsets) > SAMPLES_MAX:
            self._thin()
            while len(self._offsets) > SAMPLES_MAX - NEWEST:
                self._old_step_ms *= 2
                self._thin()

    @property
    def newest(self) -> int:
        """The newest offset that has a sample; -1 without any."""
        return self._offsets[-1] if self._offsets else -1

    def written_ms(self, offset: int) -> int | None:
        """About when it was written, or the first one after it; None if no request was read.

        A group that never committed is at 0, and older records may be gone by then.
        """
        at = bisect_right(self._offsets, offset)
        return self._at_ms[max(0, at - 1)] if self._at_ms else None

    def _thin(self) -> None:
        old, kept = len(self._offsets) - NEWEST, [0]
        for n in range(1, old):
            if self._at_ms[n] >= self._at_ms[kept[-1]] + self._old_step_ms:
                kept.append(n)
        self._offsets = array("q", (self._offsets[n] for n in kept)) + self._offsets[old:]
        self._at_ms = array("q", (self._at_ms[n] for n in kept)) + self._at_ms[old:]
