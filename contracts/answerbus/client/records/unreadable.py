"""The placeholder for a record, or a stretch of records, that cannot be read."""

from dataclasses import dataclass
from typing import Literal

from answerbus.failure import Problem

Extent = Literal["headers", "offset", "record", "batch"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why bytes cannot be read: what would have been right."""

    expected: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The offsets from `offset` up to `end` (exclusive), where no record can be read.

    `extent` says how far the fault goes, and with it what `value` holds:
    "headers", "offset": no more than these of one record are broken; its own value.
    "record": one record; its bytes as they are in the batch.
    "batch": records that cannot be separated; the bytes of the batch as the broker holds it.
    """

    topic: str
    partition: int
    offset: int
    end: int
    timestamp: int
    extent: Extent
    expected: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def has_value(self) -> bool:
        """Whether `value` is the record's own."""
        return self.extent in {"headers", "offset"}

    @property
    def problem(self) -> Problem:
        """The fault, for dead letters and people."""
        last = self.end - 1
        stretch = f"; it stands at offsets {self.offset} to {last}" if last > self.offset else ""
        return Problem.of("", f"unreadable_{self.extent}", self.expected + stretch)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}: expected {self.problem.expected}"
