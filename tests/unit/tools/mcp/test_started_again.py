"""A server over HTTP that has started again knows no session of before: another is opened."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from answerbus.tool_call import ToolCallRecord
from answerbus.tools.call import ToolCall
from answerbus.tools.core.failing import ToolError
from services.tools.mcp.connection import McpConnection, McpToolset
from services.tools.mcp.session import ServerPlace, session
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import LIMIT_S, call_body, until
from tests.unit.tools.mcp.hostile_http import DONE, HEAD, replied, request_from, usual

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\n"
_NO_SESSION = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}'


class Restarting:
    """Has one session from start to start, and answers with `unknown` in any other."""

    def __init__(self, unknown: bytes) -> None:
        self._unknown, self.opened, self.starts = unknown, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                writer.write(self._answer(*await request_from(reader, b"{}")))
        writer.close()

    def _answer(self, head: bytes, request: Any) -> bytes:
        known = head.partition(b"mcp-session-id:")[2].split(b"\r\n")[0].strip()
        if request.get("method") == "initialize":
            self.opened += 1
            own = b"Mcp-Session-Id: %d\r\n" % self.starts
            return HEAD + own + usual(request).removeprefix(HEAD)
        if known and int(known) != self.starts:
            return self._unknown
        if request.get("method") == "tools/call":
            return replied(DONE % request["id"])
        return usual(request)


@pytest.mark.parametrize(
    "unknown",
    [
        _NOT_FOUND + b"Content-Length: 0\r\n\r\n",
        replied(_NO_SESSION, _NOT_FOUND),
    ],
)
async def test_one_call_fails_without_running_and_the_next_has_a_session(unknown: bytes) -> None:
    server, loop = Restarting(unknown), asyncio.get_running_loop()
    record = ToolCallRecord.model_validate(call_body("c-1"))
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        served = McpToolset("s", ServerPlace(url=f"http://127.0.0.1:{port}/mcp"), InPlace())
        connection = McpConnection(served, session, look_again_s=LIMIT_S, wait_s=0.01)
        keeping = asyncio.create_task(connection.keep())
        act = (await asyncio.wait_for(connection.toolset, LIMIT_S)).tools["act"]

        async def made() -> object:
            await until(lambda: connection._client)
            begun: Any = act.call({}, ToolCall(record, LIMIT_S, lambda _: None, loop))
            return await asyncio.wait_for(begun, LIMIT_S)

        try:
            assert await made() == "done"
            server.starts += 1
            with pytest.raises(ToolError, match="Session") as failed:
                await made()
            await until(lambda: server.opened == 2)

            assert await made() == "done"
            assert "may have run" not in failed.value.message
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
