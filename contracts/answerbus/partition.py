"""Maps a workflow to its partition: Kafka's own murmur2, the default of Java clients."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

HASHES_MAX: Final = 4_096  # a workflow's is needed when its request comes, and when it ends

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's default partitioner, unsigned."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    words = length // 4
    for word in struct.unpack_from(f"<{words}I", data):
        k = (word * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if rest := data[4 * words :]:
        h = ((h ^ int.from_bytes(rest, "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


@lru_cache(HASHES_MAX)
def workflow_hash(workflow_id: str) -> int:
    """From which the partition of a workflow follows, for any number of partitions."""
    return murmur2(workflow_id.encode()) & 0x7FFFFFFF


def partition_of(workflow_id: str, partitions: int) -> int:
    """The partition, of `partitions`, in which everything about a workflow lives."""
    return workflow_hash(workflow_id) % partitions


@dataclass(frozen=True, slots=True)
class Layout:
    """How many partitions a deployment uses: what its lanes wrote down, not what topics have.

    `earlier` are the numbers before, latest first; `moving_to`: a move is not finished.
    """

    partitions: int
    earlier: tuple[int, ...] = ()
    moving_to: int | None = None

    def owner(self, workflow_id: str) -> int:
        """The partition whose lane handles the workflow."""
        return partition_of(workflow_id, self.partitions)

    def homes(self, workflow_id: str) -> tuple[int, ...]:
        """Where the events of the workflow stand: its owner, then its owners before each move."""
        counts = (self.partitions, *self.earlier)
        return tuple(dict.fromkeys(partition_of(workflow_id, count) for count in counts))
