"""Bounds of one event in a stream of an MCP server, however its bytes come in."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from services.tools.mcp.bounds import MESSAGE_BYTES_MAX, VALUES_MAX, Pace
from services.tools.mcp.http import Unbounded, _BoundedStream

DATA = b"data: {" + b"," * 10_000 + b"}"  # a fifth of the values that an event may have
EVENTS = 3 * VALUES_MAX // 10_000


class Chunks(httpx2.AsyncByteStream):
    """Gives these chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class NoPace(Pace):
    """Lets all through at once."""

    async def wait(self, length: int, values: int = 0, messages: int = 1) -> None:
        pass


async def read(*chunks: bytes) -> bytes:
    pace = NoPace(lambda: 0.0)
    stream = _BoundedStream(Chunks(*chunks), pace, is_packed=False, is_events=True)
    return b"".join([chunk async for chunk in stream])


@pytest.mark.parametrize(
    "end",
    [
        (b"\n\n",),
        (b"\n", b"\n"),
        (b"\r\n", b"\r\n"),
        (b"\r", b"\n", b"\r", b"\n"),
        (b"\r\n\r", b"\n"),
        (b"\r", b"\r"),
    ],
)
async def test_an_event_ends_wherever_its_end_is_split(end: tuple[bytes, ...]) -> None:
    chunks = (DATA, *end) * EVENTS

    assert await read(*chunks) == b"".join(chunks)


@pytest.mark.parametrize("end", [(b"\n",), (b"\r\n",), (b"\r", b"\n")])
async def test_lines_of_one_event_count_together(end: tuple[bytes, ...]) -> None:
    with pytest.raises(Unbounded, match="values at once"):
        await read(*((DATA, *end) * EVENTS))


async def test_line_ends_are_counted_once() -> None:
    assert await read(b"x" * (MESSAGE_BYTES_MAX - 2) + b"\n", b"x")
    with pytest.raises(Unbounded, match="bytes at once"):
        await read(b"x" * (MESSAGE_BYTES_MAX - 1) + b"\n", b"x")
