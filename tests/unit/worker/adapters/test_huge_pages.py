"""The heap moves to huge pages; stacks and files stay where they are."""

import ctypes
import mmap
import re
from pathlib import Path

import pytest

from services.worker.adapters import huge_pages

MIB = 1024 * 1024
SMAPS = b"""\
55d0a000-55d0b000 r-xp 00001000 fe:00 123                        /usr/bin/python3.11
Size:                  4 kB
Rss:                   4 kB
VmFlags: rd ex mr mw me
5600000-5e00000 rw-p 00000000 00:00 0                            [heap]
Size:               8192 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                6144 kB
Pss:                6144 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac
7f00000-8700000 rw-p 00000000 00:00 0
Size:               8192 kB
Rss:                  12 kB
Pss:                  12 kB
VmFlags: rd wr mr mw me ac
8700000-8800000 rw-p 00000000 00:00 0\x20
Size:               1024 kB
Rss:                1024 kB
VmFlags: rd wr mr mw me ac
8800000-8900000 rw-p 00000000 00:00 0                            [anon:cpython:pymalloc]
Size:               1024 kB
Rss:                1024 kB
8900000-8a00000 rw-s 00000000 00:01 77                           /dev/zero (deleted)
Size:               1024 kB
Rss:                1024 kB
8a00000-8b00000 rw-p 00000000 fe:00 78                           /lib/\xff.so
Size:               1024 kB
Rss:                1024 kB
7ffc000-7ffe000 rw-p 00000000 00:00 0                            [stack]
Size:                  8 kB
Rss:                   8 kB
"""


def test_only_anonymous_mappings_that_are_in_memory_are_moved() -> None:
    assert list(huge_pages.heap_of(SMAPS)) == [
        (0x5600000, 8 * MIB),
        (0x8700000, MIB),
        (0x8800000, MIB),
    ]


def _has_collapse() -> bool:
    found = re.match(r"(\d+)\.(\d+)", Path("/proc/sys/kernel/osrelease").read_text("ascii"))
    return found is not None and (int(found[1]), int(found[2])) >= (6, 1)


@pytest.mark.skipif(
    not (huge_pages.are_allowed() and _has_collapse()), reason="the kernel moves no pages"
)
def test_memory_in_use_is_moved() -> None:
    with mmap.mmap(-1, 8 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(bytes(range(256)) * (8 * MIB // 256))
        view = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(view)
        huge_pages.move_to_huge_pages()
        assert _huge_kib(address) >= 4 * 1024
        del view
        assert memory[: 8 * MIB] == bytes(range(256)) * (8 * MIB // 256)


def _huge_kib(address: int) -> int:
    """On huge pages, of the mapping with this address."""
    for mapping in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        start, end = (int(part, 16) for part in mapping.split(" ", 1)[0].split("-"))
        if start <= address < end:
            found = re.search(r"^AnonHugePages: +(\d+) kB$", mapping, re.MULTILINE)
            return int(found[1]) if found else 0
    return 0


def test_a_kernel_that_is_silent_or_says_never_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "enabled"
    monkeypatch.setattr(huge_pages, "_ENABLED", said)
    assert not huge_pages.are_allowed()
    said.write_text("always madvise [never]\n")
    assert not huge_pages.are_allowed()
    said.write_text("always [madvise] never\n")
    assert huge_pages.are_allowed()
