"""HTTP/1.1 to one server: requests in parallel, each on a connection of its own, which is kept."""

import asyncio
import base64
import socket
import string
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit

from services.worker.adapters.providers.apis.api import HttpResponse
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.kept_connection import (
    KEEP_ALIVE_S,
    READ_BYTES,
    BrokenExchangeError,
    KeptConnection,
    NotConnectedError,
)
from services.worker.tasks.own_thread import OwnThread

Sign = Callable[[str, str, bytes], Mapping[str, str]]
Body = Callable[[], bytes]
Method = Literal["GET", "POST"]
NEXT_ADDRESS_S = 0.25  # until another address of the server is tried beside the first
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


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
        self._look_up = OwnThread(_look_up)

    async def exchange(
        self, method: Method, path: str, body: Body | None, begins_by: float | None = None
    ) -> HttpResponse:
        """The response to one request. Raises NotConnectedError, BrokenExchangeError.

        `body` is called once there is a connection, so that the bytes are not kept during the
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
        """One for exclusive use, with its slot."""
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
        # First beside the loop's pool, whose threads names that no server answers for would hold.
        await self._look_up(nearest.host)
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


def _look_up(host: str) -> None:
    socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)


def _basic(address: SplitResult) -> str | None:
    """The header of a name and a password in an address."""
    if address.username is None:
        return None
    pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
