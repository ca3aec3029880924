"""A real TCP server that speaks HTTP/1.1 and misbehaves as it is told."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, assert_never

WAIT_LIMIT_S = 5.0
HEAD_BYTES_MAX = 64 * 1024


@dataclass(frozen=True)
class Send:
    """Bytes as they are."""

    data: bytes


@dataclass(frozen=True)
class Drip:
    """Bytes one at a time, each `every_s` seconds."""

    data: bytes
    every_s: float


@dataclass(frozen=True)
class When:
    """Nothing more, until the test says so."""

    told: asyncio.Event


@dataclass(frozen=True)
class Hang:
    """Nothing more, until the client leaves."""


@dataclass(frozen=True)
class Close:
    """An orderly end of the connection."""


@dataclass(frozen=True)
class Reset:
    """A TCP reset."""


Step = Send | Drip | When | Hang | Close | Reset
Script = Sequence[Step]


def head(
    status: int = 200, headers: Mapping[str, str | bytes] | None = None, *, length: int | None
) -> bytes:
    """Status line and headers; `length` None leaves the length open."""
    lines = [f"HTTP/1.1 {status} Whatever".encode()]
    if length is not None:
        lines.append(b"content-length: %d" % length)
    for name, value in {"content-type": "application/json", **(headers or {})}.items():
        lines.append(
            name.encode() + b": " + (value if isinstance(value, bytes) else value.encode())
        )
    return b"\r\n".join([*lines, b"", b""])


def answer(
    body: Any, status: int = 200, headers: Mapping[str, str | bytes] | None = None
) -> tuple[Send]:
    """A well-formed HTTP response; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (Send(head(status, headers, length=len(data)) + data),)


@dataclass(frozen=True)
class Seen:
    """A request that arrived whole."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


@dataclass
class Misbehaving:
    """The n-th request gets the n-th script, later ones the last; what happened is recorded."""

    scripts: Sequence[Script]
    base_url: str = ""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    bytes_sent: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)  # a client left a Hang
    closed: asyncio.Event = field(default_factory=asyncio.Event)  # a connection, on this side
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def requests(self, number: int) -> None:
        """Waits until `number` requests arrived."""
        async with asyncio.timeout(WAIT_LIMIT_S), self.changed:
            await self.changed.wait_for(lambda: len(self.seen) >= number)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while seen := await _request(reader, connection):
                script = self.scripts[min(len(self.seen), len(self.scripts) - 1)]
                self.seen.append(seen)
                async with self.changed:
                    self.changed.notify_all()
                for step in script:
                    if not await self._do(step, reader, writer):
                        return
        except ConnectionError:
            pass  # the client was faster
        finally:
            writer.close()
            self.closed.set()

    async def _do(
        self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        match step:
            case Send(data):
                await self._send(data, writer)
            case Drip(data, every_s):
                for byte in data:
                    await self._send(bytes([byte]), writer)
                    await asyncio.sleep(every_s)
            case When(told):
                await told.wait()
            case Hang():
                await reader.read(1)
                self.left.set()
                return False
            case Close():
                return False
            case Reset():
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            case _:
                assert_never(step)
        return True

    async def _send(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(data), HEAD_BYTES_MAX):
            piece = data[start : start + HEAD_BYTES_MAX]
            writer.write(piece)
            await writer.drain()
            self.bytes_sent += len(piece)


async def _request(reader: asyncio.StreamReader, connection: int) -> Seen | None:
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = first.split(" ")
    return Seen(method, path, headers, body, connection)


@asynccontextmanager
async def misbehaving(
    *scripts: Script, tls: SSLContext | None = None
) -> AsyncIterator[Misbehaving]:
    """A server on a free port of this machine, gone with all its connections at the end."""
    served = Misbehaving(scripts)
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.add(writer)
        with suppress(asyncio.CancelledError):  # streams log a cancelled handler as a fault
            await served.serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=HEAD_BYTES_MAX, ssl=tls)
    scheme, port = "https" if tls else "http", server.sockets[0].getsockname()[1]
    served.base_url = f"{scheme}://127.0.0.1:{port}/v1"
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()  # TLS would wait for a goodbye
        await asyncio.gather(*(one.wait_closed() for one in writers), return_exceptions=True)
        await server.wait_closed()
