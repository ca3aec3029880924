"""One HTTP exchange, bounded in time, bytes and connections, whichever SDK drives it."""

import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass

import aiohttp
import httpx
import httpx2
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.httpx2.client import Httpx2AiohttpClient

from services.worker.core.reply import Reply, TimedOut, Unavailable
from services.worker.fair_timeout import fair_timeout

CONNECT_TIMEOUT_S = 5.0
PREFLIGHT_TIMEOUT_S = 10.0  # of each question
KEEP_ALIVE_S = 4.0  # common servers hang up after 5 s, and may do so in the middle of a call
RESPONSE_BYTES_MAX = 8 * 1024 * 1024
UNPACKED = {"Accept-Encoding": "identity"}  # what is not packed cannot explode
NO_KEY = "none"  # SDKs insist on a key; servers without keys ignore it

NEVER_CONNECTED = (
    # The transport raises the same for "refused" and for "reset after the request"; only aiohttp's
    # own exception below it tells them apart.
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,  # connecting, or waiting for a free connection
    aiohttp.ClientHttpProxyError,
    httpx2.UnsupportedProtocol,  # a base_url that is none
    httpx.UnsupportedProtocol,
)
_NETWORK = (
    *(httpx2.RequestError, httpx2.InvalidURL, httpx.RequestError, httpx.InvalidURL),
    *(aiohttp.ClientError, OSError),
)
_READ_TIMEOUTS = (httpx2.ReadTimeout, httpx.ReadTimeout)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A response as it came, whole or cut at the limit."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def http_client(max_in_flight: int) -> httpx2.AsyncClient:
    """An HTTP client over aiohttp, which costs a fraction of what the default transport does."""
    return Httpx2AiohttpClient(
        limits=httpx2.Limits(max_connections=max_in_flight, keepalive_expiry=KEEP_ALIVE_S),
        headers=UNPACKED,
        event_hooks={"request": [_set_connect_timeout], "response": [bound_response]},
    )


def older_transport(max_in_flight: int) -> httpx.AsyncBaseTransport:
    """The same for SDKs that are built on httpx and not on its fork."""
    limits = httpx.Limits(max_connections=max_in_flight, keepalive_expiry=KEEP_ALIVE_S)
    return AiohttpTransport(limits=limits)


def timeouts() -> httpx2.Timeout:
    """What comes before a call; the call as a whole is bounded by whoever awaits it, fairly.

    A timer of the transport's own would not wait for what lies in the socket.
    """
    return httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S, pool=CONNECT_TIMEOUT_S)


def older_timeouts() -> httpx.Timeout:
    """What comes before a call, for SDKs that are built on httpx and fix this for all calls."""
    return httpx.Timeout(None, connect=CONNECT_TIMEOUT_S, pool=CONNECT_TIMEOUT_S)


def received(response: httpx2.Response | httpx.Response) -> Received:
    """A response that was read."""
    return Received(response.status_code, response.headers, response.content)


async def recorded(call: Awaitable[object], timeout_s: float) -> Received | Reply:
    """What came back of an SDK's call, whatever the SDK itself made of it.

    Some SDKs lose the status, the headers or the usage when they cannot read a body.
    """
    _last.set(None)
    failed: Exception | None = None
    try:
        async with fair_timeout(timeout_s):
            await call
    except Exception as error:
        failed = error
    response = _last.get()
    if response is not None:
        with suppress(httpx2.ResponseNotRead, httpx.ResponseNotRead):  # broken off
            return received(response)
    return reply_to(failed or RuntimeError("an SDK that asked nobody"), timeout_s)


def reply_to(
    error: Exception, timeout_s: float, *, network: tuple[type[Exception], ...] = ()
) -> Reply:
    """What a call without a response came to.

    `network` names the SDK's own exceptions for broken connections. The text of an exception may
    quote a body: never log it.
    """
    causes = list(_causes(error))
    if isinstance(error, TimeoutError) or any(isinstance(c, _READ_TIMEOUTS) for c in causes):
        return TimedOut(timeout_s)
    if isinstance(error, (*_NETWORK, *network)):
        logger.info("no answer: %s", " < ".join(type(cause).__name__ for cause in causes))
        return Unavailable(None, ran=not any(isinstance(c, NEVER_CONNECTED) for c in causes))
    where = "".join(traceback.format_tb(error.__traceback__))
    logger.error("a bug: %s in a call, at\n%s", type(error).__name__, where)
    return Unavailable(None, ran=True)


class _Bounded(httpx2.AsyncByteStream, httpx.AsyncByteStream):
    """The first `bytes_max` bytes of a body: what is cut is no JSON, and the status is kept."""

    def __init__(
        self, stream: httpx2.AsyncByteStream | httpx.AsyncByteStream, bytes_max: int
    ) -> None:
        self._stream, self._bytes_max = stream, bytes_max

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._bytes_max
        async for chunk in self._stream:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


_last: ContextVar[httpx2.Response | httpx.Response | None] = ContextVar("last", default=None)


async def _set_connect_timeout(request: httpx2.Request) -> None:
    """Bounds what comes before a call, and nothing else, whatever an SDK says."""
    request.extensions["timeout"] = timeouts().as_dict()


async def bound_response(response: httpx2.Response | httpx.Response) -> None:
    """Bounds what will be read of a response, before any of it is, and keeps it at hand."""
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    if isinstance(response.stream, httpx2.AsyncByteStream | httpx.AsyncByteStream):
        response.stream = _Bounded(response.stream, 0 if packed else RESPONSE_BYTES_MAX)
    response.encoding = "utf-8"  # a charset that cannot be decoded would cost an SDK the status
    _last.set(response)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
