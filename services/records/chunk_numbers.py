"""Detects missing chunks of closed ids in a lane's ledger, by their numbers; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from answerbus.private.ledger import CHUNK_DIGITS_MAX, CLOSED_IDS_KEY, ClosedIdsRecord


@dataclass(slots=True)
class ChunkNumbers:
    """The numbers of one lane's chunks, and at which offsets of its ledger they stand.

    The first may be any: chunks are ended one after the other. But none is missing in between.
    """

    _found: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    _passed: set[int] = field(default_factory=set)

    def take(self, record: ClosedIdsRecord, offset: int) -> None:
        """A chunk; of two with one number the later counts."""
        if record.chunk.isdecimal():
            self._found[int(record.chunk)] = record.covers, offset

    def take_unreadable(self, key: bytes | None, offset: int) -> None:
        """A chunk that cannot be read is reported by itself, with all that it covered."""
        if (number := _number(key)) is not None:
            self._found[number] = None, offset

    def end(self, key: bytes | None) -> None:
        if (number := _number(key)) is not None:
            self._found.pop(number, None)

    def skip(self, offset: int) -> None:
        """An operator has skipped what is wrong at an offset."""
        self._passed.add(offset)

    def missing(self) -> Iterator[tuple[int, str]]:
        """Once all are read: the offset of each chunk before which one is missing, and which."""
        before: int | None = None
        for number, (covers, offset) in sorted(self._found.items()):
            is_gap = before is not None and covers is not None and number - covers > before
            if before is not None and is_gap and offset not in self._passed:
                yield offset, f"the closed ids of chunk {before + 1}, before this one, are missing"
            before = number


def _number(key: bytes | None) -> int | None:
    name = (key or b"").decode(errors="replace")
    number = name.removeprefix(CLOSED_IDS_KEY)
    is_chunk = name.startswith(CLOSED_IDS_KEY) and len(number) <= CHUNK_DIGITS_MAX
    return int(number) if is_chunk and number.isdecimal() else None
