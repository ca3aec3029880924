"""The one HTTP client of all providers: bounded in time, bytes and connections."""

import logging
import select
import traceback
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from ssl import SSLContext
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from pydantic_core import to_json

from services.worker.adapters.providers.apis.api import HttpRequest, HttpResponse
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.core.attempt.reply import Reply, TimedOut, Unavailable
from services.worker.tasks.fair_timeout import FairTimeout

OWN_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",  # what is not packed cannot explode
    "content-type": "application/json",
}
NEVER_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,  # connecting, or waiting for a free connection
    aiohttp.ClientHttpProxyError,
    *(aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError),  # a base_url that is none
)
_NETWORK = (aiohttp.ClientError, OSError)

logger = logging.getLogger(__name__)
KEEP_ALIVE_S = 4.0  # common servers hang up after 5 s, and may do so in the middle of a call


class CheckedConnections(aiohttp.TCPConnector):
    """aiohttp's own checks only what came before a connection was put back."""

    def __init__(self, *, limit: int, ssl: SSLContext | bool) -> None:
        super().__init__(limit=limit, keepalive_timeout=KEEP_ALIVE_S, ssl=ssl)
        self._asked: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> Connection:
        """A new connection, or one without bytes since its last response."""
        connection = await super().connect(req, traces, timeout)
        while (kept := connection.protocol) is not None and kept in self._asked:
            if not _has_bytes(kept):
                return connection
            connection.close()
            connection = await super().connect(req, traces, timeout)
        if kept is not None:
            self._asked.add(kept)
        return connection


def _has_bytes(protocol: ResponseHandler) -> bool:
    """Whether bytes, or the end, have come: they were read, or still lie in the socket."""
    if protocol.should_close or protocol.transport is None:
        return True
    poll = select.poll()
    poll.register(protocol.transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


class HttpClient:
    """Sends requests to one server: one exchange each, without redirects, retries and cookies."""

    def __init__(
        self, base_url: str, headers: Mapping[str, str], max_in_flight: int, limits: ExchangeLimits
    ) -> None:
        self._base_url = base_url
        agent = f"answerbus/{version('answerbus-services')}"
        self._headers = {**headers, **OWN_HEADERS, "user-agent": agent}
        self._proxy = proxy_for(base_url)
        self._max_in_flight = max_in_flight
        self._limits = limits
        self._opened: aiohttp.ClientSession | None = None

    async def exchange(self, request: HttpRequest, timeout_s: float) -> HttpResponse | Reply:
        """The response, or what came of it that there is none."""
        try:
            async with FairTimeout(timeout_s):
                return await self._send(request)
        except Exception as error:
            return reply_to(error, timeout_s)

    async def close(self) -> None:
        """Close all connections; exchanges under way fail."""
        if self._opened is not None:
            await self._opened.close()

    async def _send(self, request: HttpRequest) -> HttpResponse:
        sent = self._session().request(
            request.method,
            self._base_url + request.path,
            data=None if request.body is None else to_json(request.body),
            headers=self._headers,
            proxy=self._proxy,
            allow_redirects=False,  # that would be a second call
        )
        async with sent as response:
            return HttpResponse(response.status, response.headers, await self._body(response))

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """The first bytes of a body: what is cut is no JSON, and the status is kept."""
        pieces, left = [], self._limits.response_bytes_max
        async for piece in response.content.iter_any():
            pieces.append(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
        return b"".join(pieces)

    def _session(self) -> aiohttp.ClientSession:
        """The connections, which belong to the event loop that first asks for them."""
        if self._opened is None:
            connect_s = self._limits.connect_timeout_s
            self._opened = aiohttp.ClientSession(
                connector=CheckedConnections(
                    limit=self._max_in_flight, ssl=_trusted(self._base_url)
                ),
                # The call as a whole is bounded fairly: a timer of the client's own would not wait
                # for what lies in the socket.
                timeout=aiohttp.ClientTimeout(sock_connect=connect_s, connect=connect_s),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._opened


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address."""
    address = urlsplit(url)
    if proxy_bypass(address.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def server_of(url: str) -> str | None:
    """Scheme, host and port, by which profiles share a server; None for what is no address."""
    try:
        address = urlsplit(url)
        is_address = address.scheme in {"http", "https"} and address.hostname and address.port != 0
    except ValueError:
        return None
    if not is_address:
        return None
    host = address.netloc.rpartition("@")[2].lower()
    standard = {"http": ":80", "https": ":443"}.get(address.scheme, "")
    return f"{address.scheme}://{host.removesuffix(standard)}"


def reply_to(error: Exception, timeout_s: float) -> Reply:
    """What an exchange without a response came to.

    The text of an exception may quote a body: never log it.
    """
    causes = " < ".join(type(cause).__name__ for cause in _causes(error))
    if isinstance(error, NEVER_CONNECTED):
        logger.info("no connection: %s", causes)
        return Unavailable(None, ran=False)
    if isinstance(error, TimeoutError):
        return TimedOut(timeout_s)
    if isinstance(error, _NETWORK):
        logger.info("no answer: %s", causes)
        return Unavailable(None, ran=True)
    where = "".join(traceback.format_tb(error.__traceback__))
    logger.error("a bug: %s in a call, at\n%s", type(error).__name__, where)
    return Unavailable(None, ran=True)


def _trusted(url: str) -> SSLContext | bool:
    """The authorities that the SDKs' own clients trust: those of the operating system."""
    if urlsplit(url).scheme != "https":
        return True
    import httpx2  # noqa: PLC0415 - a tenth of a second, for those who use it

    return httpx2.create_ssl_context()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
