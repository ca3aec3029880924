"""One connection of HTTP/1.1, for one request after the other, all bounded.

Responses have no ids: the bytes that come next are read as the answer to the next request, so that
a second response to one request would become the answer to another. A connection that has bytes
before it is asked again is closed instead.
"""

import asyncio
import select
from ssl import SSLContext
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from services.worker.adapters.providers.apis.api import HttpResponse

KEEP_ALIVE_S = 4.0  # common servers hang up after 5 s, and may do so in the middle of a call
HEAD_BYTES_MAX = 64 * 1024  # of the heads before a body, and of what follows its last chunk
READ_BYTES = 16 * 1024  # at once, between which other tasks have their turn
FRAMING_PER_BYTE = 8  # bytes of chunk sizes around each byte of a body
_SWITCHING = 101


class NotConnectedError(Exception):
    """No byte of the request was sent."""


class BrokenExchangeError(Exception):
    """The request may have been read, and no whole response came."""


class _TooLargeError(Exception):
    """A head of too many bytes; the parser reports it as an error of its own."""


class KeptConnection(asyncio.BufferedProtocol):
    """Sends one request after the other.

    It reads little at a time: where each byte is a chunk of its own, 16 KiB take some 5 ms.
    What is in `buffer` is taken at once, so that the connections of an event loop share it.
    """

    def __init__(self, body_bytes_max: int, buffer: memoryview) -> None:
        self.transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self._readable: select.poll | None = None
        self._buffer = buffer
        self._is_open = True
        self._body_bytes_max = body_bytes_max
        self._answer: asyncio.Future[HttpResponse] | None = None
        self._begin(is_tunnel=False)

    def _begin(self, *, is_tunnel: bool) -> None:
        self._is_tunnel, self._received = is_tunnel, 0
        self._parser = HttpResponseParser(self)
        self._clear()

    def _clear(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()  # one, since pieces may be as short as a byte
        self._head_bytes = 0
        self._is_head_read = self._has_length = False

    def send(self, request: bytes) -> "asyncio.Future[HttpResponse]":
        """The response to come, or BrokenExchangeError; raises NotConnectedError."""
        if self.transport is None or not self._is_open:
            raise NotConnectedError
        answer = self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return answer

    def may_be_asked(self, now: float) -> bool:
        """Whether it is open, and no bytes and no end have come: read, or still in the socket."""
        is_fresh = self._is_open and now - self.idle_since <= KEEP_ALIVE_S
        if self.transport is None or not is_fresh:
            return False
        if self._readable is None:
            self._readable = select.poll()
            self._readable.register(self.transport.get_extra_info("socket"), select.POLLIN)
        return not self._readable.poll(0)

    @property
    def may_be_kept(self) -> bool:
        """Whether another request may be sent, and the last one was sent in full."""
        transport = self.transport
        return self._is_open and transport is not None and not transport.get_write_buffer_size()

    async def tunnel(self, request: bytes, context: SSLContext, host: str) -> None:
        """Ask a proxy for a way to `host`, then use TLS. Raises OSError and those of `send`."""
        self._begin(is_tunnel=True)
        response = await self.send(request)
        if response.status // 100 != 2 or self.transport is None:
            raise ConnectionRefusedError
        loop = asyncio.get_running_loop()
        self.transport = await loop.start_tls(self.transport, self, context, server_hostname=host)
        self._begin(is_tunnel=False)

    def close(self) -> None:
        """At once, with what is under way."""
        self._is_open = False
        if self.transport is not None:
            self.transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio asks for more
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.take(self._buffer[:nbytes])

    def take(self, data: bytes | memoryview) -> None:
        """The next bytes of a response."""
        if self._answer is None:  # nothing was asked
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._is_open = False
        except HttpParserError:
            self._fail("no HTTP/1.1")
        if self._received > HEAD_BYTES_MAX + (1 + FRAMING_PER_BYTE) * len(self._body):
            self._fail("a head, or chunks, of too many bytes")

    def eof_received(self) -> None:
        self._is_open = False  # asyncio closes it, and says so later

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        if exc is None and self._is_head_read and not self._has_length:
            self._complete()  # a body without a length ends with its connection
        self._fail("closed")

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._answer is None:  # a second response to one request
            self._is_open = False
        self._clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _TooLargeError
        if not self._is_head_read:
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._is_head_read = True
        self._has_length = not self._headers.keys().isdisjoint(
            ("content-length", "transfer-encoding")
        )
        if self._is_tunnel and not self._is_interim:
            self._complete()

    def on_body(self, body: bytes) -> None:
        if self._answer is None:  # of a body that was cut
            return
        left = self._body_bytes_max - len(self._body)
        self._body += body[:left]
        if len(body) >= left:  # what is cut is not JSON, and the status is kept
            self._is_open = False
            self._complete()

    def on_message_complete(self) -> None:
        if self._is_interim or self._is_tunnel:  # a tunnel's reply has no body, whatever it says
            return
        self._is_open = self._is_open and self._parser.should_keep_alive()
        self._complete()

    @property
    def _is_interim(self) -> bool:
        return 100 <= self._status < 200 and self._status != _SWITCHING

    def _complete(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(HttpResponse(self._status, self._headers, bytes(self._body)))
        self._received = 0  # it counts all responses of 1xx with the one that they precede
        self._clear()  # it may be idle for long

    def _fail(self, why: str) -> None:
        self._is_open = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(BrokenExchangeError(why))
