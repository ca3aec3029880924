"""Connections without a request end after a while, or where there are too many."""

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
    monkeypatch.setattr(server, "IDLE_S_MAX", 0.5)  # within which the slow request begins
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
    asked.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)

        assert b"slow" not in await asyncio.wait_for(reader.read(), LIMIT_S)
        free.set()
        assert b"slow" in await asyncio.wait_for(other.read(), LIMIT_S)
    finally:
        writer.close()
        asked.close()
        await serving.stop()


async def test_the_oldest_connection_ends_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)
    free = asyncio.Event()

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="quick")

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await free.wait()
        return response

    async def asked(path: str, until: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await asyncio.wait_for(reader.readuntil(until), LIMIT_S)
        return reader

    app = web.Application()
    app.router.add_get("/", quick)
    app.router.add_get("/slow", slow)
    serving = HttpServer(app, end_s=1.0)
    writers: list[asyncio.StreamWriter] = []
    port = int((await serving.start(("127.0.0.1", 0))).rpartition(":")[2])
    try:
        busy, idle = await asked("/slow", b"begun"), await asked("/", b"quick")
        await asked("/", b"quick")
        await asked("/", b"quick")

        assert await asyncio.wait_for(idle.read(), LIMIT_S) == b""
        free.set()
        assert b"0\r\n\r\n" in await asyncio.wait_for(busy.read(), LIMIT_S)
    finally:
        for writer in writers:
            writer.close()
        await serving.stop()
