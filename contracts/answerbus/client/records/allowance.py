"""How long one poll may read batches: those behind wait for the next one."""

import time

READING_S_MAX = 0.05  # of a poll, while nothing else runs; the batch under way is finished


class Allowance:
    """Counts the seconds that batches have taken since the last poll began."""

    def __init__(self) -> None:
        self._poll = 0
        self._taken_s = 0.0

    def renew(self) -> None:
        """A poll begins."""
        self._poll += 1
        self._taken_s = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether the next batch has to wait."""
        return self._taken_s >= READING_S_MAX

    def begin(self) -> tuple[int, float]:
        """A batch begins; what is given is for `end`."""
        return self._poll, time.perf_counter()

    def end(self, begun: tuple[int, float]) -> None:
        """A batch ends. One that lasted over several polls counts for none."""
        poll, at = begun
        if poll == self._poll:
            self._taken_s += time.perf_counter() - at
