"""Compressed bytes of a batch, unpacked up to a bound on memory."""

import mmap
import struct
from collections.abc import Callable
from typing import Final, TypeVar

import cramjam

from answerbus.client.records.unreadable import Fault

# A broker takes batches of 1 MiB by default, and a request has 512 KiB at most: 16 MiB are 32 of
# the largest requests, or a full batch that was compressed to a sixteenth.
UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4  # the codec bits of a batch
CODECS: Final = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
TOO_LARGE: Final = Fault(f"a batch that unpacks to at most {UNPACKED_BYTES_MAX:,} bytes")

_SMALL_PACKED_BYTES_MAX: Final = 16 * 1024  # for most batches no memory has to be mapped
_SMALL_BYTES_MAX: Final = 64 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # the magic, a version and the least version that can read it
_NO_ROOM = "failed to write whole buffer"  # what cramjam says of an output that is full

T = TypeVar("T")
_Into = Callable[[bytes, memoryview], int]
_PLAIN: Final[dict[int, _Into]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def unpack(codec: int, packed: bytes, keep: Callable[[memoryview], T]) -> T | Fault:
    """What `keep` makes of what was packed, or why it cannot be had.

    Never more than UNPACKED_BYTES_MAX, which are gone when `keep` ends.
    """
    if codec not in CODECS:
        return Fault(f"a codec that is known, not number {codec}")
    if len(packed) <= _SMALL_PACKED_BYTES_MAX:
        small = memoryview(bytearray(_SMALL_BYTES_MAX))
        size = _unpack_into(codec, packed, small)
        if size is not TOO_LARGE:
            return size if isinstance(size, Fault) else keep(small[:size])
    # A memory map: only pages that are written to exist.
    with mmap.mmap(-1, UNPACKED_BYTES_MAX) as large, memoryview(large) as out:
        size = _unpack_into(codec, packed, out)
        if isinstance(size, Fault):
            return size
        with out[:size] as unpacked:
            return keep(unpacked)


def _unpack_into(codec: int, packed: bytes, out: memoryview) -> int | Fault:
    try:
        size = _snappy(packed, out) if codec == SNAPPY else _PLAIN[codec](packed, out)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of cramjam is not an Exception
        return TOO_LARGE if _NO_ROOM in str(error) else _broken(codec, error)
    return TOO_LARGE if isinstance(size, _NoRoom) else size


class _NoRoom:
    """The output is too small."""


def _snappy(packed: bytes, out: memoryview) -> int | _NoRoom:
    """Blocks with their sizes, as Java writes them, or one block alone. Raises on broken ones."""
    if not (len(packed) > _XERIAL_HEADER_BYTES and packed.startswith(_XERIAL_MAGIC)):
        return _snappy_block(packed, out)
    at, size = _XERIAL_HEADER_BYTES, 0
    while at < len(packed):
        (length,) = struct.unpack_from("!i", packed, at)
        at += 4
        if length <= 0 or at + length > len(packed):
            raise ValueError("a block's length is beyond the end")
        added = _snappy_block(packed[at : at + length], out[size:])
        if isinstance(added, _NoRoom):
            return added
        at, size = at + length, size + added
    return size


def _snappy_block(block: bytes, out: memoryview) -> int | _NoRoom:
    if cramjam.snappy.decompress_raw_len(block) > len(out):
        return _NoRoom()
    return cramjam.snappy.decompress_raw_into(block, out)


def _broken(codec: int, error: BaseException) -> Fault:
    return Fault(f"a batch in {CODECS[codec]} that can be unpacked ({error})")
