"""What one piece of work takes: CPU time of its thread, and memory of its process at the peak."""

import ctypes
import gc
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cost.budget import Budget

ADDRESS_SPACE_MAX = 4 * 1024**3  # of a search: what takes more ends by itself
_IS_LINUX = sys.platform == "linux"
_LIBC = ctypes.CDLL(None)
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Of work on an input of so many bytes."""

    input_bytes: int
    cpu_s: float
    peak_bytes: int

    def share_of(self, budget: Budget) -> float:
        """How much of its budget it takes, by what it takes most of."""
        return max(self.cpu_s / budget.loop_s, self.peak_bytes / budget.bytes_max(self.input_bytes))

    @property
    def words(self) -> str:
        """For people, and for the file of what is kept."""
        per_byte = self.cpu_s * 1e9 / max(self.input_bytes, 1)
        times = self.peak_bytes / max(self.input_bytes, 1)
        return (
            f"{self.input_bytes:,} bytes: {self.cpu_s * 1e3:.1f} ms ({per_byte:,.0f} ns a byte), "
            f"{self.peak_bytes / 1e6:.1f} MB ({times:.1f} times)"
        )


def bound_process() -> None:
    """Let no input take the machine's memory, and no search for garbage what is loaded by now."""
    gc.freeze()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if _IS_LINUX:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_MAX, hard))


def cost_of(work: Callable[[], object], input_bytes: int, times: int = 1) -> Cost:
    """The least of some measurements: others use this machine, too."""
    cpu_s = peak = float("inf")
    for _ in range(times):
        gc.collect()
        before = _start_of_peak()
        began = time.thread_time()
        kept = _result(work)
        cpu_s = min(cpu_s, time.thread_time() - began)
        peak = min(peak, max(0, _resident("VmHWM") - before))
        del kept
    return Cost(input_bytes, cpu_s, int(peak))


def _result(work: Callable[[], object]) -> object:
    """What goes wrong is what other targets look for; here it has a cost as well."""
    try:
        return work()
    except Exception as error:
        return str(type(error))


def _start_of_peak() -> int:
    """The memory from which a peak counts, from now on; 0 where the kernel counts none."""
    with suppress(AttributeError):
        _LIBC.malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _resident("VmRSS")


def _resident(name: str) -> int:
    if not _IS_LINUX:
        return 0
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) * _KIB
