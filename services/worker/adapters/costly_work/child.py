"""What the child process does: one piece of work at a time, each within its limits.

It reads frames of pickled work from its standard input and writes frames of pickled results. It
ends when its parent has gone, as its input ends then; when it used up a limit; and after work that
has made it large.
"""

import os
import resource
import sys
from typing import BinaryIO

from services.worker.adapters.costly_work.pickled import dumps, loads
from services.worker.ports.costly_work import MIB, WorkLimits

LENGTH_BYTES = 8
KEPT_BYTES_MAX = 256 * MIB  # a process that work has left larger is not used again
EXIT_MEMORY = 75
NICENESS = 5  # event loops go first
_IS_LINUX = sys.platform == "linux"  # elsewhere the kernel keeps to no limit of memory


def main() -> None:
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what prints must not get among the results
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _write(sink, b"")
    while (frame := _read(source)) and _serve(frame, sink):
        pass


def _serve(frame: bytes, sink: BinaryIO) -> bool:
    """Do one piece of work; gives whether this process is good for another."""
    try:
        limits, work, args, kwargs = loads(frame)
        bound(limits)
        try:
            result = True, work(*args, **kwargs)
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            result = False, error
        goes_on = not _IS_LINUX or _memory_bytes()[1] < KEPT_BYTES_MAX
        _write(sink, dumps((goes_on, *result)))
    except MemoryError:
        os._exit(EXIT_MEMORY)
    return goes_on


def bound(limits: WorkLimits) -> None:
    """Let this process have so much more than it has used by now, and no more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_s
    _set(resource.RLIMIT_CPU, cpu_s)
    if _IS_LINUX:
        _set(resource.RLIMIT_AS, _memory_bytes()[0] + limits.memory_bytes)


def _set(kind: int, limit: int) -> None:
    """A soft limit, so that the next work can have another; the hard one holds all the same."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _memory_bytes() -> tuple[int, int]:
    """The address space of this process, and what of it is in memory."""
    with open("/proc/self/statm", encoding="ascii") as sizes:
        space, resident = sizes.read().split()[:2]
    page = resource.getpagesize()
    return int(space) * page, int(resident) * page


def _read(source: BinaryIO) -> bytes:
    """The next frame; empty at the end of the input."""
    length = source.read(LENGTH_BYTES)
    return source.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else b""


def _write(sink: BinaryIO, payload: bytes) -> None:
    sink.write(len(payload).to_bytes(LENGTH_BYTES, "big"))
    sink.write(payload)
    sink.flush()
