"""The CPU time of a call in three HTTP clients: `python -m tests.benchmarks.cost_of_clients`.

Each beside the others in one run, over TCP and over TLS: ours, aiohttp as it was used before, and
pyreqwest, whose sockets run in threads of their own, where it is installed.
"""

import asyncio
import multiprocessing
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import aiohttp

from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.http1 import Connections
from tests.integration.certificates import Authority
from tests.providers.misbehaving import answer, misbehaving

CALLS = 3_000
AT_ONCE = 100
ROUNDS = 5
BODY = b'{"model":"m","messages":[{"role":"user","content":"%s"}]}' % (b"q" * 4_000)
REPLY = {"choices": [{"message": {"content": "a" * 1_000}}], "usage": {"prompt_tokens": 1}}
HEADERS = {"authorization": "Bearer sk-1234567890", "content-type": "application/json"}

Post = Callable[[], Awaitable[bytes]]


def serve(folder: Path | None, pipe: Connection) -> None:
    """Answer at once, in a process of its own, until anything comes."""
    asyncio.run(_serve(folder, pipe))


async def _serve(folder: Path | None, pipe: Connection) -> None:
    context = None
    if folder is not None:
        authority = Authority(folder, "trusted")
        signed = authority.signs("server")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(signed.certificate, signed.key)
    async with misbehaving(answer(REPLY), tls=context) as server:
        pipe.send((server.base_url, folder and str(authority.file)))
        await asyncio.to_thread(pipe.recv)


@asynccontextmanager
async def ours(url: str, trusted: str | None) -> AsyncIterator[Post]:
    context = ssl.create_default_context(cafile=trusted) if trusted else None
    connections = Connections(url, None, HEADERS, AT_ONCE, ExchangeLimits(), context)

    async def post() -> bytes:
        return (await connections.exchange("POST", "/chat", lambda: BODY)).body

    yield post
    connections.close()


@asynccontextmanager
async def aiohttp_(url: str, trusted: str | None) -> AsyncIterator[Post]:
    context = ssl.create_default_context(cafile=trusted) if trusted else True
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=AT_ONCE, keepalive_timeout=4.0, ssl=context),
        timeout=aiohttp.ClientTimeout(sock_connect=5.0, connect=5.0),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:

        async def post() -> bytes:
            async with session.post(
                url + "/chat", data=BODY, headers=HEADERS, allow_redirects=False
            ) as response:
                return await response.read()

        yield post


@asynccontextmanager
async def pyreqwest(url: str, trusted: str | None) -> AsyncIterator[Post]:
    builder = import_module("pyreqwest.client").ClientBuilder()
    builder = builder.http1_only().pool_max_idle_per_host(AT_ONCE).default_headers(HEADERS)
    if trusted:
        pem = await asyncio.to_thread(Path(trusted).read_bytes)
        builder = builder.add_root_certificate_pem(pem)
    async with builder.build() as client:

        async def post() -> bytes:
            response = await client.post(url + "/chat").body_bytes(BODY).build().send()
            return bytes(await response.bytes())

        yield post


async def cost_ms(client: Callable[[str, str | None], object], url: str, ca: str | None) -> float:
    """CPU milliseconds of this process per call, with all its threads, after some to warm up."""
    slots = asyncio.Semaphore(AT_ONCE)
    async with client(url, ca) as post:  # type: ignore[attr-defined]

        async def call() -> None:
            async with slots:
                assert len(await post()) > 1_000

        await asyncio.gather(*(call() for _ in range(AT_ONCE)))
        began = time.process_time()
        await asyncio.gather(*(call() for _ in range(CALLS)))
        return (time.process_time() - began) / CALLS * 1_000


def main() -> None:
    """One line per client and transport: the median of rounds, which take turns."""
    clients = {"ours": ours, "aiohttp": aiohttp_}
    try:
        import_module("pyreqwest")
        clients["pyreqwest"] = pyreqwest
    except ImportError:
        sys.stdout.write("pyreqwest is not installed\n")
    context = multiprocessing.get_context("spawn")
    for transport in ("TCP", "TLS"):
        with tempfile.TemporaryDirectory() as folder:
            near, far = context.Pipe()
            certificates = Path(folder) if transport == "TLS" else None
            process = context.Process(target=serve, args=(certificates, far))
            process.start()
            url, ca = near.recv()
            found: dict[str, list[float]] = {name: [] for name in clients}
            for _ in range(ROUNDS):
                for name, client in clients.items():
                    found[name].append(asyncio.run(cost_ms(client, url, ca)))
            near.send(None)
            process.join()
        for name, costs in found.items():
            sys.stdout.write(f"{transport} {name:10} {median(costs):.3f} ms\n")


if __name__ == "__main__":
    main()
