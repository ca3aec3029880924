"""The finished part of a partition, as one offset and a short text that Kafka stores with it; pure.

Calls of a partition run side by side and end in any order. A group's offset says that all before
it is done; the text says which offsets behind it are not, so that a successor runs these alone:
nothing that was claimed or answered runs again because it was behind a call that takes long.
"""

from collections.abc import Iterable
from dataclasses import dataclass

PENDING_MAX = 256  # so that the text fits Kafka's 4,096 bytes of metadata
_VERSION = "1"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Position:
    """All before `offset` is done; `text` lists later offsets that are not."""

    offset: int
    text: str


class PartitionPositions:
    """Which records of a partition were taken and are not done, from what was committed on."""

    def __init__(self, offset: int, text: str = "") -> None:
        """A text that is not ours says nothing."""
        self.committed = 0  # the mark of its server up to which its ends are committed
        self._horizon, left = _read(offset, text)  # all before the horizon was taken
        self._pending = set(left)
        self._unseen = set(left)  # of those, what a predecessor took and this server did not yet

    def begin(self, offset: int, end: int | None = None) -> bool:
        """Take the record at an offset, or the stretch up to `end`; False if it was done before.

        Records come in order: what a predecessor left and is skipped is gone by its age.
        """
        gone = {one for one in self._unseen if one < offset}
        self._pending -= gone
        self._unseen -= gone | {offset}
        if offset < self._horizon and offset not in self._pending:
            return False
        self._horizon = max(self._horizon, end or offset + 1)
        self._pending.add(offset)
        return True

    def finish(self, offset: int) -> None:
        """It is answered, dropped, or claimed for good."""
        self._pending.discard(offset)

    @property
    def pending(self) -> int:
        """How many records are neither answered nor dropped."""
        return len(self._pending)

    @property
    def position(self) -> Position:
        """The first offset that is not done, with the later ones that are in its metadata."""
        if not self._pending:
            return Position(self._horizon, "")
        first = min(self._pending)
        return Position(first, _written(first, self._horizon, sorted(self._pending)))


def _written(first: int, horizon: int, pending: Iterable[int]) -> str:
    steps, last = [], first
    for offset in pending:
        steps.append(_digits(offset - last))
        last = offset
    return ".".join([_VERSION, _digits(horizon - first), *steps])


def _read(offset: int, text: str) -> tuple[int, set[int]]:
    version, _, rest = text.partition(".")
    parts = rest.split(".")
    if version != _VERSION or not all(part and set(part) <= set(_DIGITS) for part in parts):
        return offset, set()
    horizon, *steps = (int(part, 36) for part in parts)
    pending, last = set(), offset
    for step in steps:
        last += step
        pending.add(last)
    return offset + horizon, pending


def _digits(number: int) -> str:
    text = ""
    while True:
        number, rest = divmod(number, 36)
        text = _DIGITS[rest] + text
        if not number:
            return text
