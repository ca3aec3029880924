"""What an MCP server writes to its stderr: lines of the bridge's log, escaped and bounded."""

import logging

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from services.tools.mcp.stdio import STDERR_BYTES_PER_S, STDERR_LINE_BYTES_MAX, _pass_on

WRITES = "the MCP server writes: "


class Pieces(ByteReceiveStream):
    """Gives these pieces, then ends."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)

    async def receive(self, max_bytes: int = 0) -> bytes:
        if piece := next(self._pieces, b""):
            return piece
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        pass


async def logged(caplog: pytest.LogCaptureFixture, *pieces: bytes) -> list[str]:
    caplog.set_level(logging.INFO)
    await _pass_on(Pieces(*pieces))
    return [message.removeprefix(WRITES) for message in caplog.messages]


async def test_lines_are_whole_and_escaped(caplog: pytest.LogCaptureFixture) -> None:
    lines = await logged(caplog, b"\x1b[2Jone\r\ntw", b"o\nhalf \xff a line")

    assert lines == [r"\u001b[2Jone", "two", "half \N{REPLACEMENT CHARACTER} a line"]


async def test_long_lines_are_cut_and_many_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    lines = await logged(caplog, b"x" * 60_000, b"x" * 60_000, b"x\n\n" + b"y\n" * 10_000)

    assert len(lines[0]) <= STDERR_LINE_BYTES_MAX
    assert lines[1] == "y", "the rest of a long line is none of its own"
    assert 10 < len(lines) < STDERR_BYTES_PER_S // 100
