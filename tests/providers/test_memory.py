"""What connections hold: little between calls, and no request during one."""

import asyncio
import ssl
import sys
import tracemalloc
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.http1 import Connections
from services.worker.adapters.tls_memory import READ_BYTES, bound_tls_buffers
from tests.integration.certificates import Authority
from tests.providers.misbehaving import Hang, Send, head, misbehaving

CONNECTIONS = 20
ENDS = 2  # of each connection: client and server are in this process
OTHER_BYTES = 24 * 1024  # of an end over TLS, beside what it reads into
BODY = bytes(range(256)) * 4 * 1024  # 1 MiB
WHOLE = (Send(head(length=len(BODY)) + BODY),)
LIMIT_S = 5.0


@contextmanager
def connections_to(url: str, trusted: ssl.SSLContext | None = None) -> Iterator[Connections]:
    connections = Connections(url, None, {}, CONNECTIONS, ExchangeLimits(), trusted)
    yield connections
    connections.close()


async def held_by_each(connections: Connections) -> float:
    """Bytes of a connection that is idle, after a large response."""

    async def read() -> int:
        return len((await connections.exchange("POST", "/chat", lambda: b"{}")).body)

    assert await read() == len(BODY)  # what is made once is made now
    tracemalloc.start()
    try:
        assert {*await asyncio.gather(*(read() for _ in range(CONNECTIONS)))} == {len(BODY)}
        return tracemalloc.get_traced_memory()[0] / CONNECTIONS
    finally:
        tracemalloc.stop()


async def test_an_idle_connection_keeps_no_response() -> None:
    async with misbehaving(WHOLE) as server:
        with connections_to(server.base_url) as connections:
            assert await held_by_each(connections) < ENDS * OTHER_BYTES


async def test_over_tls_it_holds_no_more_than_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)  # as before, at the end
    bound_tls_buffers()
    authority = Authority(tmp_path, "trusted")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(authority.signs("server").both)
    trusted = ssl.create_default_context(cafile=authority.file)
    async with misbehaving(WHOLE, tls=served) as server:
        with connections_to(server.base_url, trusted) as connections:
            assert await held_by_each(connections) < ENDS * (READ_BYTES + OTHER_BYTES)


async def test_nobody_keeps_the_request_while_its_call_lasts() -> None:
    async with misbehaving((Hang(),)) as server:
        with connections_to(server.base_url) as connections:
            request = bytes(BODY)
            before = sys.getrefcount(request)
            call = asyncio.create_task(connections.exchange("POST", "/chat", lambda: request))
            async with asyncio.timeout(LIMIT_S):
                while not server.seen:
                    await asyncio.sleep(0)

            assert sys.getrefcount(request) == before
            call.cancel()
            await asyncio.wait([call])
