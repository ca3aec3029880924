"""Moves the heap to huge pages, so that the CPU finds most of its addresses in its TLB."""

import asyncio
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

EVERY_S = 5.0  # the heap grows, most of all after the start
RESIDENT_MIN = 0.75  # of a mapping: a stack of 8 MiB, hardly used, would come to have 2 MiB

_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MADV_COLLAPSE = 25  # Linux 6.1
_ANONYMOUS = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(?:\[heap\]|\[anon:.*\])?\n"
    rb"(?:\w+: .*\n)*?Rss: +(\d+) kB$",
    re.MULTILINE,
)


async def keep_on_huge_pages() -> None:
    """Ends at once where the kernel has no such pages, or its operator wants none."""
    if not are_allowed():
        return
    while True:
        await asyncio.sleep(EVERY_S)
        await asyncio.to_thread(move_to_huge_pages)


def are_allowed() -> bool:
    try:
        return "[never]" not in _ENABLED.read_text("ascii")
    except OSError:
        return False


def move_to_huge_pages() -> None:
    """Takes up to 3 ms for each 2 MiB that was on small pages; an older kernel refuses it.

    Without MADV_HUGEPAGE: then the loop would wait for a huge page at the first use of each.
    """
    collapse = ctypes.CDLL(None).madvise
    for start, size in heap_of(Path("/proc/self/smaps").read_bytes()):
        collapse(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_COLLAPSE)


def heap_of(smaps: bytes) -> Iterator[tuple[int, int]]:
    """Address and bytes of each anonymous mapping that is in memory for the most part."""
    for found in _ANONYMOUS.finditer(smaps):
        start, end = int(found[1], 16), int(found[2], 16)
        if int(found[3]) * 1024 >= RESIDENT_MIN * (end - start):
            yield start, end - start
