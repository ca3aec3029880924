"""A tool server's port to a broker: calls in, answers out, and committed positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from answerbus.tools.core.positions import Position
from answerbus.trace import TRACE_PARENT, TRACE_STATE


class ClaimLost(Exception):
    """A position could not be committed: the partition is another server's, or the broker away."""


class ReplyRefused(Exception):
    """There is no such partition for an answer, or no right to write there."""


class ChannelUnavailable(Exception):
    """The broker does not take an answer now; it may later."""


@dataclass(frozen=True, slots=True)
class Received:
    """One record of the toolset's topic; `end` is the offset behind it, or behind a stretch."""

    partition: int
    offset: int
    end: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def trace(self) -> Mapping[str, str]:
        """The headers that name the trace of a call, for its result and for what it asks."""
        return {
            name: content.decode()
            for name, content in self.headers
            if name in {TRACE_PARENT, TRACE_STATE} and content is not None and content.isascii()
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A record for the place that a call names."""

    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


class Channel(Protocol):
    """One consumer in the toolset's group, and one producer."""

    async def receive(self, limit: int) -> Sequence[Received]:
        """Some records, none after a short while."""

    async def commit(self, positions: Mapping[int, Position]) -> None:
        """Commit a position for each partition by number. Raises ClaimLost."""

    async def answer(self, answer: Answer) -> None:
        """Returns once the broker has it. Raises ReplyRefused, ChannelUnavailable."""
