"""How far a partition is done: the smallest unfinished delivered offset."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Watermark:
    """Counts delivered records, not numbers: transaction markers and aborts leave gaps.

    `position` is the next offset to take.
    """

    position: int
    _delivered: deque[int] = field(default_factory=deque)
    _finished: set[int] = field(default_factory=set)

    def deliver(self, offset: int) -> bool:
        """Count a record as taken; False if it had been taken before."""
        if offset < self.position:
            return False
        self.position = offset + 1
        if offset in self._finished:  # by a call that outlived a reopening
            self._finished.discard(offset)
        else:
            self._delivered.append(offset)
        return True

    def finish(self, offset: int) -> None:
        """Count a record as done with."""
        self._finished.add(offset)
        while self._delivered and self._delivered[0] in self._finished:
            self._finished.discard(self._delivered.popleft())

    @property
    def committable(self) -> int:
        """The offset to commit: everything below it is done with."""
        return self._delivered[0] if self._delivered else self.position
