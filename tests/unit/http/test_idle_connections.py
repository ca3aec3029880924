"""A connection without a request ends after a while, and those with one do not."""

import asyncio

import pytest
from aiohttp import web

from services.http import server
from services.http.server import HttpServer

LIMIT_S = 30.0


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"]
)
async def test_a_connection_is_closed_where_no_request_comes(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_S_MAX", 0.05)
    free = asyncio.Event()

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="quick")

    async def slow(_: web.Request) -> web.Response:
        await free.wait()
        return web.Response(text="slow")

    app = web.Application()
    app.router.add_get("/", quick)
    app.router.add_get("/slow", slow)
    serving = HttpServer(app, end_s=1.0)
    port = int((await serving.start(("127.0.0.1", 0))).rpartition(":")[2])
    other, asked = await asyncio.open_connection("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        asked.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        writer.write(sent)

        assert b"slow" not in await asyncio.wait_for(reader.read(), LIMIT_S)
        free.set()
        assert b"slow" in await asyncio.wait_for(other.read(), LIMIT_S)
    finally:
        writer.close()
        asked.close()
        await serving.stop()
