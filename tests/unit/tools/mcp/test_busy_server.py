"""A server that lists no tools in a call is busy, until it hangs or its session is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from answerbus.tool_call import ToolCallRecord
from answerbus.tools.call import ToolCall
from answerbus.tools.core.failing import ToolError
from services.tools.mcp import bridge
from services.tools.mcp.connection import McpConnection, McpToolset
from services.tools.mcp.screening import ScreenedTransport
from services.tools.mcp.session import McpSession, ServerPlace
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import LIMIT_S, call_body, until

LOOK_S = 0.01  # from look to look, and for a look
FIRST_LOOK_S = 1.0  # and for one that is under way as the call is made
REQUESTS_MAX = 1_000  # that wait for the server, as in a pipe

CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
RESULTS: dict[str, dict[str, Any]] = {
    "server/discover": {
        **CACHED,
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "slow", "version": "1"},
    },
    "tools/list": {**CACHED, "tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}


class SlowServer:
    """Ends its calls when `free` is set; until then it answers all else with `refusal`, if any."""

    def __init__(self, refusal: int | None = None) -> None:
        self.free = asyncio.Event()
        self.opened = self.called = 0
        self._refusal = refusal

    @asynccontextmanager
    async def open(self, _: ServerPlace) -> AsyncIterator[McpSession]:
        self.opened += 1
        transport = ScreenedTransport(self._serving())
        async with Client(transport, cache=None) as client:
            yield McpSession(client, transport.ended, transport.calls)

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[TransportStreams]:
        answers, reads = anyio.create_memory_object_stream[SessionMessage | Exception](REQUESTS_MAX)
        writes, requests = anyio.create_memory_object_stream[SessionMessage](REQUESTS_MAX)

        async def answer(request: types.JSONRPCRequest) -> None:
            if request.method == "tools/call":
                self.called += 1
                await self.free.wait()
            found: types.JSONRPCMessage
            if self.called and self._refusal and request.method == "tools/list":
                error = types.ErrorData(code=self._refusal, message="not now")
                found = types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
            else:
                result = {**RESULTS[request.method]}
                found = types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)
            await answers.send(SessionMessage(found))

        async def serve() -> None:
            async for asked in requests:
                if isinstance(request := asked.message, types.JSONRPCRequest):
                    if self._refusal:
                        group.start_soon(answer, request)
                    else:
                        await answer(request)

        async with answers, requests, anyio.create_task_group() as group:
            group.start_soon(serve)
            yield reads, writes
            group.cancel_scope.cancel()


@asynccontextmanager
async def calling(server: SlowServer, timeout_s: float) -> AsyncIterator["asyncio.Task[object]"]:
    """A call that has reached the server, by a bridge that takes so long a silence for a fault."""
    served = McpToolset("slow", ServerPlace(), InPlace(), timeout_s=timeout_s)
    connection = McpConnection(served, server.open, look_again_s=LOOK_S, wait_s=LOOK_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bridge, "LIST_S", FIRST_LOOK_S)
        keeping = asyncio.create_task(connection.keep())
        act = (await asyncio.wait_for(connection.toolset, LIMIT_S)).tools["act"]
        await until(lambda: connection._client)
        record, loop = ToolCallRecord.model_validate(call_body("c-1")), asyncio.get_running_loop()

        async def call() -> object:
            made: Any = act.call({}, ToolCall(record, timeout_s, lambda _: None, loop))
            return await made

        made = asyncio.create_task(call())
        try:
            await until(lambda: server.called)
            patch.setattr(bridge, "LIST_S", LOOK_S)
            yield made
        finally:
            for task in (made, keeping):
                task.cancel()
            await asyncio.wait([made, keeping])


@pytest.mark.parametrize("refusal", [None, types.INTERNAL_ERROR])
async def test_a_call_of_a_busy_server_goes_on_while_its_tools_cannot_be_listed(
    refusal: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = SlowServer(refusal)
    async with calling(server, timeout_s=LIMIT_S) as made:
        await until(lambda: caplog.text.count("is busy with calls") > 1)
        assert server.opened == 1
        server.free.set()

        assert await asyncio.wait_for(made, LIMIT_S) == "done"


async def test_a_server_that_is_silent_for_longer_than_a_tool_may_be_is_connected_to_again() -> (
    None
):
    server = SlowServer()
    async with calling(server, timeout_s=5 * LOOK_S) as made:
        with pytest.raises(ToolError, match="the tool may have run"):
            await asyncio.wait_for(made, LIMIT_S)
        await until(lambda: server.opened > 1)


@pytest.mark.parametrize("code", [types.INVALID_REQUEST, -32001])  # of the SDK, and of servers
async def test_a_session_that_is_over_is_opened_again(code: int) -> None:
    server = SlowServer(code)
    async with calling(server, timeout_s=LIMIT_S):
        await until(lambda: server.opened > 1)


async def test_calls_that_are_given_up_keep_no_server_busy() -> None:
    server = SlowServer()
    async with calling(server, timeout_s=LIMIT_S) as made:
        made.cancel()
        await until(lambda: server.opened > 1)
