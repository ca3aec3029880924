"""An MCP server as a child process: its lines and its stderr are bounded as they are read."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from answerbus.wire import clip
from services.text.escaping import plain_line
from services.tools.mcp.bounds import MESSAGE_BYTES_MAX, VALUES_MAX, Pace, values_in

END_S = 2.0  # for a server to end after its input has ended, and again after SIGTERM
STDERR_BYTES_PER_S = 16 * 1024  # that are passed on
STDERR_LINE_BYTES_MAX = 4 * 1024  # of a longer line the beginning is passed on
_STDERR_LINE_COST_BYTES = 128  # that a line counts beside its own: the log puts a time before it
_STDERR_PIECE_BYTES = 64 * 1024
_ID_DIGITS_MAX = 18
# Of a reply that is nested too deep or is cut: its members before the result, and the last one.
_BEGINNING = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'(?:"id"\s*:\s*([0-9]{1,18})\s*,\s*)?"(?:result|error)"\s*:'
)
_ENDING = re.compile(rb'"id"\s*:\s*([0-9]{1,18})\s*\}\s*$')
_ENDING_BYTES_MAX = 64
_POLL_S = 0.01
_CLOSED = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    OSError,
)

_log = logging.getLogger(__name__)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str], environment: Mapping[str, str], pace: Pace
) -> AsyncIterator[TransportStreams]:
    """Like the SDK's `stdio_client`, which joins a line without end again with each piece of it.

    Raises OSError for a command that cannot be started.
    """
    process = await anyio.open_process(
        list(command),
        env=get_default_environment() | dict(environment),
        start_new_session=True,  # so that all of its descendants end with it
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise OSError("a process without pipes")  # for types alone: pipes are the default
    found, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writes, sent = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_lines, stdout, found, pace)
            group.start_soon(_write_lines, stdin, sent, found)
            group.start_soon(_pass_on, stderr)
            try:
                yield reads, writes
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, stdin)
        for stream in (found, reads, writes, sent):
            stream.close()


async def _read_lines(
    stdout: ByteReceiveStream,
    found: MemoryObjectSendStream[SessionMessage | Exception],
    pace: Pace,
) -> None:
    lines = BufferedByteReceiveStream(stdout)
    with found, suppress(*_CLOSED):
        while True:
            try:
                line = await lines.receive_until(b"\n", MESSAGE_BYTES_MAX)
            except anyio.DelimiterNotFound:
                _log.error("the MCP server's line has more than %d bytes", MESSAGE_BYTES_MAX)
                return
            values = values_in(line)
            if values > VALUES_MAX:
                _log.error("the MCP server's line has more than %d values", VALUES_MAX)
                return
            await pace.wait(len(line), values)
            if message := parsed(line):
                await found.send(SessionMessage(message))


def parsed(line: bytes) -> types.JSONRPCMessage | None:
    """The message; an error for a reply that cannot be read, or its call would wait for ever."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        asked = _answered(line)
    if asked is None:
        _log.debug("a line of the MCP server is not a message")
        return None
    _log.warning("a reply of the MCP server cannot be read")
    error = types.ErrorData(code=types.PARSE_ERROR, message="its server's reply cannot be read")
    return types.JSONRPCError(jsonrpc="2.0", id=asked, error=error)


def _answered(line: bytes) -> int | None:
    """The request to which a line replies, also with half a character, bad UTF-8 and the like."""
    try:
        found = json.loads(line.decode(errors="replace"), parse_int=_id, parse_float=str)
    except (ValueError, RecursionError):
        return _answered_around(line)
    asked = found.get("id") if isinstance(found, dict) and "method" not in found else None
    return asked if type(asked) is int else None


def _answered_around(line: bytes) -> int | None:
    """The same by what is around its result."""
    begun = _BEGINNING.match(line)
    if begun is None:
        return None
    found = begun if begun[1] else _ENDING.search(line[-_ENDING_BYTES_MAX:])
    return int(found[1]) if found else None


def _id(digits: str) -> int | None:
    """A number, if it can be the id of a request: Python refuses to read one of 4,301 digits."""
    return int(digits) if len(digits) <= _ID_DIGITS_MAX else None


async def _write_lines(
    stdin: ByteSendStream,
    sent: MemoryObjectReceiveStream[SessionMessage],
    found: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    with sent, suppress(*_CLOSED):
        async for message in sent:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")
        return
    found.close()  # or calls would wait for answers to what was never sent


async def _pass_on(stderr: ByteReceiveStream) -> None:
    """To the log. Drop what is beyond the limit: a server that may not write would stand still."""
    clock = asyncio.get_running_loop().time
    second_ends, left, begun, is_cut = 0.0, 0, b"", False
    try:
        while True:
            piece = await stderr.receive(_STDERR_PIECE_BYTES)
            if clock() >= second_ends:
                second_ends, left = clock() + 1.0, STDERR_BYTES_PER_S
            *lines, begun = (begun + piece).split(b"\n")
            if lines and is_cut:
                lines, is_cut = lines[1:], False
            if len(begun) > STDERR_LINE_BYTES_MAX:
                lines, begun, is_cut = [*lines, *([] if is_cut else [begun])], b"", True
            for line in filter(bytes.strip, lines):
                left -= min(len(line), STDERR_LINE_BYTES_MAX) + _STDERR_LINE_COST_BYTES
                if left < 0:
                    break
                _log_line(line)
            await asyncio.sleep(_POLL_S)
    except _CLOSED:
        pass
    finally:
        if begun.strip() and not is_cut:
            _log_line(begun)


def _log_line(line: bytes) -> None:
    text = clip(line.decode(errors="replace").rstrip(), STDERR_LINE_BYTES_MAX)
    _log.info("the MCP server writes: %s", plain_line(text))


async def _end(process: Process, stdin: ByteSendStream) -> None:
    with suppress(*_CLOSED):
        await stdin.aclose()
    with anyio.move_on_after(END_S):
        while process.returncode is None:
            await anyio.sleep(_POLL_S)
    await terminate_posix_process_tree(process, END_S)
    with suppress(*_CLOSED):
        await process.aclose()
