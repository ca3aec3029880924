"""An exchange over HTTP that breaks off ends its own call, and no other that is under way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from answerbus.tool_call import ToolCallRecord
from answerbus.tools.call import ToolCall
from answerbus.tools.core.failing import ToolError
from services.tools.mcp import http
from services.tools.mcp.bounds import Pace
from services.tools.mcp.bridge import toolset_of
from services.tools.mcp.session import ServerPlace, session
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import LIMIT_S, call_body
from tests.providers.misbehaving import answer, misbehaving
from tests.unit.tools.mcp.hostile_http import DONE, HEAD, JSON, replied, request_from, usual

SLOW, ALONE = "slow", "alone"  # alone: the server takes no more connections


@asynccontextmanager
async def serving(broken: bytes, free: asyncio.Event) -> AsyncIterator[ServerPlace]:
    """Answers a slow call once `free` is set, and each other one by what is broken."""

    connections = set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                _, request = await request_from(reader, b"{}")
                if request.get("method") == "notifications/cancelled":
                    await free.wait()
                elif request.get("method") != "tools/call":
                    writer.write(usual(request))
                elif SLOW in (args := request["params"]["arguments"]):
                    if args[SLOW] == ALONE:
                        server.close()
                    await free.wait()
                    writer.write(replied(DONE % request["id"]))
                else:
                    writer.write(broken)
                    break
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield ServerPlace(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        free.set()
        await asyncio.wait_for(asyncio.gather(*filter(None, connections)), LIMIT_S)


@asynccontextmanager
async def calling(broken: bytes, free: asyncio.Event) -> AsyncIterator[Callable[..., Any]]:
    """Makes calls with arguments of such a server's tool."""
    loop, record = asyncio.get_running_loop(), ToolCallRecord.model_validate(call_body("c-1"))
    async with serving(broken, free) as place, session(place) as opened:
        client = opened.client
        toolset = await toolset_of(
            client, lambda: client, "mcp", InPlace(), approval="never", timeout_s=LIMIT_S
        )

        def made(args: dict[str, Any], limit_s: float = LIMIT_S) -> Any:
            call = ToolCall(record, LIMIT_S, lambda _: None, loop)
            begun: Any = toolset.tools["act"].call(args, call)
            return asyncio.wait_for(begun, limit_s)

        yield made


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"", "disconnected"),
        (b"no HTTP\r\n\r\n", "illegal status line"),
        (HEAD + JSON + b"Content-Length: 9\r\n\r\n{", "complete message body"),
        (b"HTTP/1.1 504 Late\r\nContent-Length: 0\r\n\r\n", "status 504"),
    ],
)
async def test_a_call_whose_exchange_breaks_off_may_have_run_and_others_go_on(
    broken: bytes, why: str
) -> None:
    free = asyncio.Event()
    async with calling(broken, free) as made:
        slow = asyncio.create_task(made({SLOW: True}))
        with pytest.raises(ToolError) as failed:
            await made({})
        free.set()

        assert await slow == "done"
    assert failed.value.message.startswith("the tool may have run: ")
    assert not failed.value.retryable
    assert why in failed.value.message


async def test_a_cancellation_that_is_never_answered_holds_no_call_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "NOTICE_S_MAX", 0.05)
    async with calling(b"", asyncio.Event()) as made:
        with pytest.raises(TimeoutError):
            await made({SLOW: True}, 0.1)

        with pytest.raises(ToolError, match="may have run"):
            await made({})


async def test_a_refused_connection_ends_its_own_call_which_has_not_run() -> None:
    free = asyncio.Event()
    async with calling(b"", free) as made:
        slow = asyncio.create_task(made({SLOW: ALONE}))
        message = "the tool may have run"
        async with asyncio.timeout(LIMIT_S):
            while "may have run" in message:  # on connections that were open before
                with pytest.raises(ToolError) as failed:
                    await made({})
                message = failed.value.message
        free.set()

        assert await slow == "done"
    assert "ConnectError" in message
    assert failed.value.retryable


async def test_a_proxy_that_makes_no_tunnel_ends_its_own_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with misbehaving(answer({}, 503)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.base_url.removesuffix("/v1"))
        async with http.bounded_client(None, Pace(asyncio.get_running_loop().time)) as client:
            client.is_connected = True
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            response = await client.post("https://mcp.invalid/mcp", json=call)

    assert [seen.method for seen in proxy.seen] == ["CONNECT"]
    assert response.json()["error"]["data"] == http.NOT_SENT
