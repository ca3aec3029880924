"""A server on this machine that answers each request with the same bytes, or not at all."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

HEAD_BYTES_MAX = 64 * 1024


def response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A response of HTTP/1.1."""
    said = {"content-type": "application/json", "content-length": len(body), **(headers or {})}
    lines = [f"HTTP/1.1 {status} Played", *(f"{name}: {text}" for name, text in said.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class PlayedServer:
    """`plays` is what each request gets; None is silence. `first` is the first request, whole."""

    def __init__(self) -> None:
        self.plays: bytes | None = None
        self.first: bytes | None = None
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                request = await _request(reader)
                self.first = self.first or request
                if self.plays is None:
                    await reader.read(1)  # until the client leaves
                    break
                writer.write(self.plays)
                await writer.drain()
        writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head + await reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)
