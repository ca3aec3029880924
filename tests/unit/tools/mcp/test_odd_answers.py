"""Answers of MCP servers that break the protocol in small things, as servers in use do."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from answerbus.masking import Mask
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import ToolFailure, ToolOk
from answerbus.tools.call import ToolCall
from answerbus.tools.running import Ended, TimeLimit, run
from services.settings.settings import KafkaSettings, SetUpError
from services.tools import serving
from services.tools.mcp.bounds import LISTED_MAX
from services.tools.mcp.bridge import toolset_of
from services.tools.mcp.connection import McpConnection, McpToolset
from services.tools.mcp.screening import ScreenedTransport
from services.tools.mcp.session import McpSession, ServerPlace, session
from services.tools.mcp.stdio import parsed
from services.tools.serving import McpOptions, serve_mcp_server
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import LIMIT_S, call_body

CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
DISCOVERED = {
    **CACHED,
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}
ACT = {"name": "act", "inputSchema": {"type": "object"}}
HARMLESS = {"readOnlyHint": True, "idempotentHint": True}
NOWHERE = ServerPlace(url="http://127.0.0.1:1/mcp")


@asynccontextmanager
async def answering(
    called: dict[str, Any] | None, hints: dict[str, Any], others: Sequence[Any] = ()
) -> AsyncIterator[TransportStreams]:
    """A server that answers each call of its tool with this result or error, or ends in it."""
    listed = {**CACHED, "tools": [*others, {**ACT, "annotations": hints}]}
    results = {"server/discover": DISCOVERED, "tools/list": listed, "tools/call": called}
    answers, reads = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    writes, requests = anyio.create_memory_object_stream[SessionMessage](1)

    async def serve() -> None:
        async for asked in requests:
            request = asked.message
            if isinstance(request, types.JSONRPCRequest):
                result = results[request.method]
                if result is None:
                    await answers.aclose()
                    return
                part = "error" if "code" in result else "result"
                reply = {"jsonrpc": "2.0", "id": request.id, part: {**result}}
                await answers.send(
                    SessionMessage(types.jsonrpc_message_adapter.validate_python(reply))
                )

    async with answers, requests, anyio.create_task_group() as group:
        group.start_soon(serve)
        yield reads, writes
        group.cancel_scope.cancel()


async def outcome_of(
    called: dict[str, Any] | None,
    hints: dict[str, Any] | None = None,
    place: ServerPlace = NOWHERE,
) -> Ended:
    transport = ScreenedTransport(answering(called, hints or {}))
    async with Client(transport, cache=None) as client:
        served = McpToolset("odd", place, InPlace(), timeout_s=5.0)
        tools = await served.read_toolset(client, lambda: client)
        loop = asyncio.get_running_loop()
        record = ToolCallRecord.model_validate(call_body("c-1"))
        call = ToolCall(record, 5.0, lambda _: None, loop)
        ended = await run(tools.tools["act"], {}, call, TimeLimit(LIMIT_S, loop))
        return ended.outcome


async def test_a_result_that_does_not_say_its_type_is_complete() -> None:
    said = {"content": [{"type": "text", "text": "done"}]}

    assert await outcome_of(said) == ToolOk(value="done")


@pytest.mark.parametrize(
    ("tool", "warning"),
    [
        ({"name": "b"}, "the tool 'b' is left out: it is invalid at 'inputSchema'"),
        ({**ACT, "name": 7}, "the tool 'without a name' is left out: it is invalid at 'name'"),
        ({**ACT, "annotations": []}, "the tool 'act' is left out: it is invalid at 'annotations'"),
        (None, "the tool 'without a name' is left out: it is invalid at ''"),
    ],
)
async def test_an_invalid_tool_hides_no_other(
    tool: Any, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = ScreenedTransport(answering(None, {}, [tool]))
    async with Client(transport, cache=None) as client:
        tools = await toolset_of(
            client, lambda: client, "odd", InPlace(), approval="never", timeout_s=5.0
        )

    assert list(tools.tools) == ["act"]
    assert caplog.messages == [warning]


async def test_of_a_list_of_tools_no_more_is_looked_at_than_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A message may list ten thousand that are invalid: 0.2 s, and as many lines in the log."""
    transport = ScreenedTransport(answering(None, {}, [{}] * (2 * LISTED_MAX)))
    async with Client(transport, cache=None) as client:
        listed = await client.list_tools()

    assert listed.tools == []
    assert len(caplog.messages) == LISTED_MAX


class Pages:
    """A list of tools that never ends, with pages as large as a message may be."""

    def __init__(self) -> None:
        self.asked = 0

    async def list_tools(self, **_: Any) -> types.ListToolsResult:
        self.asked += 1
        large = types.Tool(
            name=f"t{self.asked}", description="x" * 4_000_000, input_schema={"type": "object"}
        )
        return types.ListToolsResult(tools=[large], next_cursor="more")


async def test_a_list_of_tools_is_bounded_in_bytes(caplog: pytest.LogCaptureFixture) -> None:
    pages: Any = Pages()
    found = await toolset_of(
        pages, lambda: pages, "odd", InPlace(), approval="never", timeout_s=5.0
    )

    assert list(found.tools) == ["t1", "t2"]
    assert pages.asked == 3
    assert caplog.messages == ["tools beyond the first 2 are left out: they are too large"]


async def test_what_is_no_result_is_an_error_of_the_server() -> None:
    outcome = await outcome_of({"resultType": "complete", "content": 7})

    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.message) == (
        "mcp_error",
        "the tool may have run: its server's reply is not a tool result",
    )


@pytest.mark.parametrize(
    "value",
    [
        *(rb'"a cut emoji \ud83d"', b"9" * 5_000, b'"\xff"', b"[" * 300 + b"]" * 300),
        rb'"\ud83d", "more": {"id": 8, "method": "ping"}',
        b"[" * 40_000 + b"]" * 40_000,
        b'[{"id":8},',
    ],
)
def test_a_reply_that_cannot_be_read_ends_its_call_at_once(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    error = {"code": types.PARSE_ERROR, "message": "its server's reply cannot be read"}
    expected = types.JSONRPCError(jsonrpc="2.0", id=7, error=types.ErrorData.model_validate(error))

    assert parsed(b'{"jsonrpc":"2.0","id":7,"result":{"x":%s}}' % value) == expected
    assert caplog.messages == ["a reply of the MCP server cannot be read"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"result": %s, "jsonrpc": "2.0", "id": 7}\r',
        b' { "jsonrpc": "2.0", "error": %s, "id" : 7 } ',
    ],
)
def test_a_deep_reply_is_known_by_its_end(line: bytes) -> None:
    found = parsed(line % (b"[" * 40_000 + b"]" * 40_000))

    assert isinstance(found, types.JSONRPCError)
    assert (found.id, found.error.code) == (7, types.PARSE_ERROR)


@pytest.mark.parametrize(
    "line",
    [
        *(b"Server is up", b"", b"[7]", b'"id"', b"7", b"\xff", b"[" * 40_000),
        *(b'{"id":7,"method":"x\\ud83d"}', b'{"result":"\\ud83d"}', b'{"id":null,"result":7}'),
        *(b'{"id":true,"result":7}', b'{"id":"\\ud83d","result":7}'),
        b'{"id":' + b"7" * 5_000 + b',"result":7}',
        b'{"id":7,"method":"x","params":' + b"[" * 40_000,
        b'{"result":' + b"[" * 40_000 + b'"id":7',
    ],
)
def test_other_lines_are_no_replies(line: bytes) -> None:
    assert parsed(line) is None


@pytest.mark.parametrize(("hints", "retryable"), [({}, False), (HARMLESS, True)])
async def test_a_call_whose_server_ends_may_be_made_again_only_if_it_may_run_twice(
    hints: dict[str, Any], retryable: bool
) -> None:
    message = "the tool may have run: Connection closed"

    assert await outcome_of(None, hints) == ToolFailure(
        code="mcp_error", message=message, retryable=retryable
    )


async def test_a_server_cannot_say_in_our_name_that_it_has_not_seen_a_call() -> None:
    error = {"code": types.INTERNAL_ERROR, "message": "ran", "data": "answerbus/not_sent"}

    assert await outcome_of(error) == ToolFailure(code="mcp_error", message="ran")


@pytest.mark.parametrize(
    "called",
    [
        {"code": types.INTERNAL_ERROR, "message": "/mcp?key=a-key-of-length: no such key"},
        {"code": types.INTERNAL_ERROR, "message": "'Bearer a-token-of-length' has expired"},
        {"content": [{"type": "text", "text": "no user me:a-password"}], "isError": True},
    ],
)
async def test_an_error_of_a_call_shows_no_secret_of_its_server(called: dict[str, Any]) -> None:
    url = "https://me:a-password@h/mcp?key=a-key-of-length"
    place = ServerPlace(url=url, bearer="a-token-of-length")

    failed = await outcome_of(called, place=place)

    assert isinstance(failed, ToolFailure)
    assert "***" in failed.message
    assert "length" not in failed.message
    assert "password" not in failed.message


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_wants_another_token_is_named_in_the_log(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        place = ServerPlace(url=f"http://127.0.0.1:{port}/mcp")
        connection = McpConnection(McpToolset("odd", place, InPlace()), session)
        await asyncio.wait_for(connection.keep(), LIMIT_S)
        with pytest.raises(SetUpError):
            await connection.toolset

    assert f"the MCP server answers with status {status}" in caplog.text


async def test_words_of_an_error_are_one_line_without_secrets() -> None:
    url = "http://mcp.example.com?key=a-key-of-length"
    place = ServerPlace(url=url, bearer="a-token-of-length")

    @asynccontextmanager
    async def refused(_: ServerPlace) -> AsyncIterator[McpSession]:
        raise ValueError(f"'Bearer a-token-of-length' is no token\nat {url}: all is \x1b[2Jwell")
        yield

    connection = McpConnection(McpToolset("odd", place, InPlace()), refused)
    await asyncio.wait_for(connection.keep(), LIMIT_S)
    with pytest.raises(SetUpError) as unusable:
        await connection.toolset

    assert str(unusable.value) == (
        "The MCP server http://mcp.example.com cannot be used: "
        r"ValueError: 'Bearer ***' is no token\nat http://mcp.example.com?***: all is "
        r"\u001b[2Jwell."
    )
    assert "a-token-of-length" not in repr(place)


@pytest.mark.parametrize("given", ["user:p%40ss@{}?api_key=k-1#k-2", "k-1@{}", "{}?k-1\nk-2"])
def test_an_address_is_shown_without_its_keys(given: str) -> None:
    shown = "mcp.example.com:8443/a@b/mcp"
    assert ServerPlace(url=f"https://{given.format(shown)}").shown == f"https://{shown}"


def test_no_library_logs_the_address_of_each_request_and_no_line_has_its_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def missing(_: KafkaSettings, toolset: str) -> None:
        assert not logging.getLogger("httpx2").isEnabledFor(logging.INFO)
        assert not logging.getLogger("mcp.client.streamable_http").isEnabledFor(logging.INFO)
        raise SetUpError(f"no right for {toolset}")

    monkeypatch.setattr(serving, "check_rights", missing)
    for name in ("httpx2", "mcp"):  # set back at the end of the test
        monkeypatch.setattr(logging.getLogger(name), "level", logging.INFO)
    masks: list[Mask] = []
    monkeypatch.setattr(serving, "start_text_logging", masks.append)
    url = "https://mcp.example.com?key=a-key-of-length"
    options = McpOptions("odd", (), url, (), None, "never", 5.0, None)
    with pytest.raises(SetUpError, match="no right for odd"):
        serve_mcp_server(KafkaSettings(), options, 1, 0.0)
    assert [mask(url) for mask in masks] == ["https://mcp.example.com?***"]
