"""The budget of work on one input, and how it is measured."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.cpu_time import CpuTime, cpu_time

MARGIN: Final = 2  # of CPU time in tests: others use the caches of this machine, too
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Budget:
    """What work on an input of a size may take of the thread that runs the event loop."""

    loop_s: float = 0.020
    times_its_bytes: int = 16
    constant_bytes: int = 8 * MIB

    def bytes_max(self, input_bytes: int) -> int:
        """The memory that work on so large an input may take."""
        return self.times_its_bytes * input_bytes + self.constant_bytes


ANYBODY: Final = Budget()
# Of records that workers alone may write and read: bytes bound them alone, since a request that was
# open before there were other limits must still be found. The time is that of 128 KiB.
WORKERS: Final = Budget(loop_s=0.075, times_its_bytes=100)


def spent(work: Callable[[], object]) -> CpuTime:
    """The CPU time of the work: the least of some, since others use this machine, too."""
    found = []
    for _ in range(5):
        with cpu_time() as one:
            work()
        found.append(one)
        if one.spent_s < ANYBODY.loop_s:
            break
    return min(found, key=lambda one: one.spent_s)


def peak_bytes(work: Callable[[], object]) -> int:
    """The memory that the work takes at its peak, as far as Python has it."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = work()
        _, peak = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return peak
