"""The limits of reading: time and bytes in one poll, and memory for each partition."""

import time
from collections.abc import Callable
from typing import Any, Final

READING_S_MAX: Final = 0.05  # of a poll, while nothing else runs; the part under way is finished
READING_BYTES_MAX: Final = 16 * 1024 * 1024  # unpacked in a poll, beside the part under way
# Of all batches that a consumer has begun: a poll stops anywhere. Each partition has its share.
UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
SHARE_BYTES_MIN: Final = 256 * 1024  # where there are more than 256 partitions


class PollTimeBudget:
    """Counts what batches have taken since the last poll began; `stopped` lists who must wait."""

    def __init__(self, unpacked_bytes_max: int = UNPACKED_BYTES_MAX) -> None:
        self.stopped: list[Any] = []  # PartitionRecords that have more, for the next poll
        self._unpacked_bytes_max = self.share_bytes = unpacked_bytes_max
        self._poll = 0
        self._taken_s = 0.0
        self._taken_bytes = 0
        self._trim: Callable[[], None] | None = None

    def renew(self, partitions: int = 1) -> None:
        """Begin a poll of a consumer with this number of assigned partitions."""
        self.share_bytes = max(self._unpacked_bytes_max // max(1, partitions), SHARE_BYTES_MIN)
        self.stopped = []
        self._poll += 1
        self._taken_s = 0.0
        self._taken_bytes = 0

    @property
    def is_spent(self) -> bool:
        """Whether the next batch, or the next part of one, has to wait."""
        return self._taken_s >= READING_S_MAX or self._taken_bytes >= READING_BYTES_MAX

    def begin(self) -> tuple[int, float]:
        """A batch, or a part of one, begins; what is given is for `end`."""
        return self._poll, time.perf_counter()

    def end(self, begun: tuple[int, float]) -> None:
        """It ends, or its reader has enough. What lasted over several polls counts for none."""
        trim, self._trim = self._trim, None
        if trim is not None:
            trim()
        poll, at = begun
        if poll == self._poll:
            self._taken_s += time.perf_counter() - at

    def take(self, unpacked_bytes: int, trim: Callable[[], None] | None = None) -> None:
        """Count unpacked bytes; `trim` drops those beyond the share."""
        self._taken_bytes += unpacked_bytes
        self._trim = trim
