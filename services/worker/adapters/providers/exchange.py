"""The one HTTP client of all providers: bounded in time, bytes and connections."""

import logging
import traceback
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from socket import gaierror
from ssl import SSLCertVerificationError, SSLContext, SSLError
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic_core import to_json

from services.worker.adapters.providers.apis.api import HttpRequest, HttpResponse
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.http1 import Connections, Sign
from services.worker.adapters.providers.kept_connection import (
    BrokenExchangeError,
    NotConnectedError,
)
from services.worker.core.attempt.reply import Reply, TimedOut, Unavailable
from services.worker.tasks.fair_timeout import FairTimeout

OWN_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",  # what is not packed cannot explode
    "content-type": "application/json",
}
logger = logging.getLogger(__name__)


class HttpClient:
    """Sends requests to one server: one exchange each, without redirects, retries and cookies."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        max_in_flight: int,
        limits: ExchangeLimits,
        sign: Sign | None = None,
    ) -> None:
        self._base_url = base_url
        agent = f"answerbus/{version('answerbus-services')}"
        self._headers = {**headers, **OWN_HEADERS, "user-agent": agent}
        self._max_in_flight = max_in_flight
        self._limits, self._sign = limits, sign
        self._opened: Connections | None = None
        self.connection_fault: str | None = None
        """What is to be done about the last connection that was not made, if its error says it."""

    async def exchange(
        self, request: HttpRequest, timeout_s: float, begins_by: float | None = None
    ) -> HttpResponse | Reply:
        """The response, or what came of it that there is none; see Connections.exchange."""
        try:
            async with FairTimeout(timeout_s):
                body = None if request.body is None else partial(to_json, request.body)
                connections = self._connections()
                return await connections.exchange(request.method, request.path, body, begins_by)
        except Exception as error:
            self.connection_fault = _connection_fault(error)
            return reply_to(error, timeout_s)

    async def close(self) -> None:
        """Close all connections; exchanges under way fail."""
        if self._opened is not None:
            self._opened.close()

    def _connections(self) -> Connections:
        """They belong to the event loop that first asks for them."""
        if self._opened is None:
            url, proxy = self._base_url, proxy_for(self._base_url)
            is_tls = any(urlsplit(to).scheme == "https" for to in (url, proxy or ""))
            context = _trusted() if is_tls else None
            self._opened = Connections(
                url, proxy, self._headers, self._max_in_flight, self._limits, context, self._sign
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
    """Scheme, host and port, by which profiles share a server; None for what is not an address."""
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
    """The reply for an exchange without a response.

    The text of an exception may quote a body: never log it.
    """
    causes = " < ".join(type(cause).__name__ for cause in _causes(error))
    if isinstance(error, NotConnectedError):
        logger.info("no connection: %s", causes)
        return Unavailable(None, ran=False)
    if isinstance(error, TimeoutError):
        return TimedOut(timeout_s)
    if isinstance(error, BrokenExchangeError | OSError):
        logger.info("no answer: %s", causes)
        return Unavailable(None, ran=True)
    where = "".join(traceback.format_tb(error.__traceback__))
    logger.error("a bug: %s in a call, at\n%s", type(error).__name__, where)
    return Unavailable(None, ran=True)


def _trusted() -> SSLContext:
    """The authorities that the SDKs' own clients trust: those of the operating system."""
    import httpx2  # noqa: PLC0415 - a tenth of a second, for those who use it

    return httpx2.create_ssl_context()


def _connection_fault(error: Exception) -> str | None:
    match error.__cause__ if isinstance(error, NotConnectedError) else None:
        case SSLCertVerificationError(verify_message=said):
            return (
                f"its certificate is not trusted here ({said}): name the file with its authority "
                "in SSL_CERT_FILE, or correct `base_url`"
            )
        case SSLError():
            return "no TLS is spoken there: correct `base_url` (http or https, port)"
        case gaierror():
            return "its name has no address here: see to DNS, or correct the name"
        case _:
            return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
