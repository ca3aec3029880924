"""Limits of CPU time that hold on a slow machine, too."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

REFERENCE_S = 0.006  # what the loop below takes on the machine for which the limits were set
_ROUNDS = 40_000


@dataclass(slots=True)
class CpuTime:
    """What a block took of its thread, in seconds."""

    spent_s: float = 0.0

    def is_below(self, limit_s: float) -> bool:
        """Whether it is less than the limit; on a machine that is slow now, the limit is longer."""
        return self.spent_s < limit_s or self.spent_s < limit_s * slowness()


@contextmanager
def cpu_time() -> Iterator[CpuTime]:
    """Measures the block, without searches for garbage in the objects of earlier tests.

    They stay left out afterwards: to search all of them takes a second and more.
    """
    found = CpuTime()
    gc.freeze()
    began = time.thread_time()
    try:
        yield found
    finally:
        found.spent_s = time.thread_time() - began


def slowness() -> float:
    """How many times as long as on the reference machine a loop takes; at least 1."""
    began = time.thread_time()
    seen: dict[str, list[int]] = {}
    for n in range(_ROUNDS):
        seen.setdefault(str(n % 1_000), []).append(n)
    return max(1.0, (time.thread_time() - began) / REFERENCE_S)
