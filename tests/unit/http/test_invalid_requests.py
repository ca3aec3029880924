"""Invalid HTTP requests do not fill the log: anyone may send them, as often as they like."""

import asyncio
import logging

import pytest
from aiohttp import web

from services.http.server import HttpServer

LIMIT_S = 30.0


async def test_what_is_not_http_is_answered_without_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    serving = HttpServer(web.Application(), end_s=1.0)
    port = int((await serving.start(("127.0.0.1", 0))).rpartition(":")[2])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"no HTTP\r\n\r\n")

        assert b" 400 " in await asyncio.wait_for(reader.read(), LIMIT_S)
        writer.close()
    finally:
        await serving.stop()
    assert not [line for line in caplog.records if line.name.startswith("services.")]
