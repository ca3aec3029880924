"""An MCP server over HTTP, without a library: it answers each call as the test says."""

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.unit.tools.mcp.hostile_stdio import MIB, TOOL, initialized

HEAD = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
EVENTS = b"Content-Type: text/event-stream\r\n"
CLOSED = b"Connection: close\r\n\r\n"
DONE = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}'


def packed(body: bytes, encoding: bytes) -> Iterator[bytes]:
    yield HEAD + JSON + b"Content-Encoding: " + encoding + b"\r\n" + CLOSED + body


def pieces(manner: str, asked: int) -> Iterator[bytes]:  # noqa: C901 - one case each
    done = DONE % asked
    match manner:
        case "gzip":
            yield from packed(gzip.compress(bytes(256 * MIB)), b"gzip")
        case "gzip twice":
            yield from packed(gzip.compress(gzip.compress(bytes(512 * MIB))), b"gzip, gzip")
        case "gzip members":
            yield from packed(gzip.compress(bytes(MIB)) * 256, b"gzip")
        case "deflate":
            yield from packed(zlib.compress(bytes(256 * MIB)), b"deflate")
        case "charset":
            yield HEAD + b"Content-Type: text/event-stream; charset=zlib\r\n" + CLOSED
            yield zlib.compress(bytes(256 * MIB))
        case "endless":
            yield HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
            while True:
                yield b"10000\r\n" + b" " * 65_536 + b"\r\n"
        case "endless event":
            yield HEAD + EVENTS + CLOSED + b"data: "
            while True:
                yield b"x" * 65_536
        case "many lines":
            yield HEAD + EVENTS + CLOSED
            while True:
                yield b"data:\n" * 10_000
        case "events":
            yield HEAD + EVENTS + CLOSED
            while True:
                yield b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n' * 1_000
        case "headers":
            yield HEAD
            while True:
                yield b"X-A: " + b"x" * 1_000 + b"\r\n"
        case "redirect":
            yield b"HTTP/1.1 307 Away\r\nLocation: http://127.0.0.2:9/\r\nContent-Length: 0\r\n\r\n"
        case "redirects":
            yield b"HTTP/1.1 307 Here\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n"
        case "deep":
            yield HEAD + JSON + CLOSED + b"[" * 100_000
        case "many faults":
            faults = b"{}," * 60_000
            yield HEAD + JSON + CLOSED
            yield b'{"jsonrpc":"2.0","id":%d,"result":{"content":[%s{}]}}' % (asked, faults)
        case "reconnect":
            yield HEAD + EVENTS + CLOSED + b"retry: 0\nid: 1\ndata:\n\n"
        case "large":
            text = b"x" * MIB
            yield HEAD + JSON + CLOSED + done.replace(b"done", text)
        case _:
            yield HEAD + EVENTS + CLOSED + b"data: " + done + b"\n\n"


def usual(request: Any) -> bytes:
    match request.get("method"):
        case "initialize":
            reply: Any = {"result": initialized(request)}
        case "tools/list":
            reply = {"result": {"tools": [TOOL]}}
        case _ if "id" in request:
            reply = {"error": {"code": -32601, "message": "unknown"}}
        case _:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    return replied(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}).encode())


def replied(body: bytes, head: bytes = HEAD) -> bytes:
    return head + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def request_from(reader: asyncio.StreamReader, without_body: bytes) -> tuple[bytes, Any]:
    """The head in small letters, and the message; that of a request without a body is given."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
    return head, json.loads(await reader.readexactly(int(length or 0)) or without_body)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    manner = sys.argv[1]
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            _, request = await request_from(reader, b'{"method": "tools/call", "id": 0}')
            if request.get("method") != "tools/call":
                writer.write(usual(request))
                continue
            for piece in pieces(manner, request["id"]):
                writer.write(piece)
                await writer.drain()
            if not manner.startswith("redirect"):
                break
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - for the test
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
