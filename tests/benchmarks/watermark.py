"""The baseline's own account of how far a partition is done."""

from collections import OrderedDict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Watermark:
    """The offset to commit: that of the oldest record under way, or the one after the last."""

    _under_way: "OrderedDict[int, None]" = field(default_factory=OrderedDict)
    _next: int = 0
    _taken: int | None = None

    def begin(self, offset: int) -> None:
        """A record is being worked on; in order of offsets."""
        self._under_way[offset] = None
        self._next = offset + 1

    def end(self, offset: int) -> None:
        del self._under_way[offset]

    def take(self) -> int | None:
        """The offset to commit now, if it has moved since the last time."""
        mark = next(iter(self._under_way), self._next)
        if mark == self._taken:
            return None
        self._taken = mark
        return mark
