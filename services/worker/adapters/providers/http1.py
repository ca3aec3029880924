"""HTTP/1.1 to one server: one request at a time on each connection, all bounded.

Connections are kept open. Responses of HTTP/1.1 have no ids: the bytes that come next are read as
the answer to the next request, so that a second response to one request would become the answer to
another. A connection that has bytes before it is asked again is closed instead.
"""

import asyncio
import base64
import select
import string
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Literal, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from services.worker.adapters.providers.apis.api import HttpResponse
from services.worker.adapters.providers.apis.connection import ExchangeLimits

Sign = Callable[[str, str, bytes], Mapping[str, str]]
Body = Callable[[], bytes]
Method = Literal["GET", "POST"]
KEEP_ALIVE_S = 4.0  # common servers hang up after 5 s, and may do so in the middle of a call
HEAD_BYTES_MAX = 64 * 1024  # of the heads before a body, and of what follows its last chunk
READ_BYTES = 16 * 1024  # at once, between which other tasks have their turn
FRAMING_PER_BYTE = 8  # bytes of chunk sizes around each byte of a body
NEXT_ADDRESS_S = 0.25  # until another address of the server is tried beside the first
_SWITCHING = 101
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


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


@dataclass(frozen=True, slots=True)
class _Server:
    """Where connections go, and what each request says of it."""

    is_tls: bool
    host: str
    port: int
    basic: str | None  # the header of a name and a password

    @classmethod
    def at(cls, url: str) -> "_Server":
        """Raises NotConnectedError for what is not an address."""
        try:
            address = urlsplit(url)
            port = address.port or _PORTS[address.scheme]
            host = address.hostname.encode("idna").decode() if address.hostname else ""
        except (ValueError, KeyError):
            host, port = "", 0
        if not host:
            raise NotConnectedError
        return cls(address.scheme == "https", host, port, _basic(address))

    @property
    def quoted_host(self) -> str:
        """As addresses have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def name(self) -> str:
        is_standard = self.port == _PORTS["https" if self.is_tls else "http"]
        return self.quoted_host if is_standard else f"{self.quoted_host}:{self.port}"


class Connections:
    """At most so many requests at once; one beyond waits for its turn as long as to connect."""

    def __init__(
        self,
        url: str,
        proxy: str | None,
        headers: Mapping[str, str],
        max_in_flight: int,
        limits: ExchangeLimits,
        context: SSLContext | None,
        sign: Sign | None = None,
    ) -> None:
        """All requests go to the server of `url`, with these headers; `context` where that is TLS.

        `sign` gives the headers of a single request, from its method, its target and its body.

        Raises NotConnectedError for what is not an address.
        """
        self._url, self._server = url, _Server.at(url)
        self._proxy = None if proxy is None else _Server.at(proxy)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._limits, self._context, self._sign = limits, context, sign
        self._slots = asyncio.Semaphore(max_in_flight)
        self._idle: deque[KeptConnection] = deque()  # the one used last is used next
        self._open: set[KeptConnection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._fields = self._said(headers)

    async def exchange(
        self, method: Method, path: str, body: Body | None, begins_by: float | None = None
    ) -> HttpResponse:
        """The response to one request. Raises NotConnectedError, BrokenExchangeError.

        `body` is called once there is a connection, so that nobody keeps the bytes during the
        call. Nothing is sent after `begins_by`, a time of the loop.
        """
        connection = await self._connection()
        if begins_by is not None and asyncio.get_running_loop().time() >= begins_by:
            self._slots.release()
            self._keep(connection)  # for the next try
            raise NotConnectedError
        try:
            response = await connection.send(self._request(method, path, body and body()))
        except BaseException:
            self._close(connection)
            raise
        finally:
            self._slots.release()
        if connection.may_be_kept:
            self._keep(connection)
        else:
            self._close(connection)
        return response

    def close(self) -> None:
        """All connections; what is under way fails."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in [*self._open]:
            self._close(connection)

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        length = "" if body is None else f"content-length: {len(body)}\r\n"
        target = self._target_of(path)
        signed = _lines(self._sign(method, target, body or b"")) if self._sign else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._fields}{signed}{length}\r\n"
        return head.encode() + (body or b"")

    def _target_of(self, path: str) -> str:
        asked = urlsplit(self._url + path)
        query = f"?{asked.query}" if asked.query else ""
        target = quote((asked.path or "/") + query, safe=string.punctuation)
        is_forwarded = self._proxy is not None and not self._server.is_tls
        return f"http://{self._server.name}{target}" if is_forwarded else target

    def _said(self, headers: Mapping[str, str]) -> str:
        server, proxy = self._server, self._proxy
        said = {"host": server.name, **headers}
        if server.basic and "authorization" not in {name.lower() for name in headers}:
            said["authorization"] = server.basic
        if proxy is not None and not server.is_tls and proxy.basic:
            said["proxy-authorization"] = proxy.basic
        return _lines(said)

    async def _connection(self) -> KeptConnection:
        """One that nobody else uses, with its slot."""
        if self._slots.locked():
            try:
                async with asyncio.timeout(self._limits.connect_timeout_s):
                    await self._slots.acquire()
            except TimeoutError:
                raise NotConnectedError from None
        else:
            await self._slots.acquire()
        try:
            return self._kept() or await self._connected()
        except BaseException:
            self._slots.release()
            raise

    def _kept(self) -> KeptConnection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.may_be_asked(now):
                return connection
            self._close(connection)
        return None

    async def _connected(self) -> KeptConnection:
        connection = KeptConnection(self._limits.response_bytes_max, self._buffer)
        self._open.add(connection)
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                await self._connect(connection)
        except BaseException as error:
            self._close(connection)
            if isinstance(error, OSError | BrokenExchangeError):
                raise NotConnectedError from error
            raise
        return connection

    async def _connect(self, connection: KeptConnection) -> None:
        server, proxy = self._server, self._proxy
        nearest = proxy or server
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            nearest.host,
            nearest.port,
            ssl=self._context if nearest.is_tls else None,
            server_hostname=nearest.host if nearest.is_tls else None,
            happy_eyeballs_delay=NEXT_ADDRESS_S,
        )
        if proxy is not None and server.is_tls and self._context is not None:
            to = f"{server.quoted_host}:{server.port}"
            password = f"proxy-authorization: {proxy.basic}\r\n" if proxy.basic else ""
            request = f"CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n{password}\r\n"
            await connection.tunnel(request.encode(), self._context, server.host)

    def _keep(self, connection: KeptConnection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(KEEP_ALIVE_S, self._sweep)

    def _sweep(self) -> None:
        """Close what was idle for too long."""
        loop = asyncio.get_running_loop()
        until = loop.time() - KEEP_ALIVE_S
        while self._idle and self._idle[0].idle_since <= until:
            self._close(self._idle.popleft())
        left = bool(self._idle)
        self._sweeping = loop.call_later(KEEP_ALIVE_S, self._sweep) if left else None

    def _close(self, connection: KeptConnection) -> None:
        self._open.discard(connection)
        connection.close()


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def _basic(address: SplitResult) -> str | None:
    """The header of a name and a password in an address."""
    if address.username is None:
        return None
    pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
