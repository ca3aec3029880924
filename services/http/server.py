"""An HTTP server that hides its software's name and does not echo malformed input."""

import asyncio
import logging
import socket
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web

from services.http.certificate import HANDSHAKE_S_MAX, ServerCertificate

PROBES_END_S = 4.0  # for clients of probes and metrics that read slowly
IDLE_S_MAX = 620.0  # of a connection without a request: load balancers keep theirs for 600 s
CONNECTIONS_MAX = 256  # of more, the oldest are closed: all use up the open files of the process

_log = logging.getLogger(__name__)


class HttpServer:
    """Serves an application until it is stopped; what is under way then has `end_s` to end.

    Applications add `without_name` to their `on_response_prepare`.
    """

    def __init__(self, application: web.Application, end_s: float = 60.0) -> None:
        self._runner = web.AppRunner(application, shutdown_timeout=end_s / 2)  # it waits twice
        self._server: asyncio.Server | None = None

    async def start(
        self,
        where: socket.socket | tuple[str, int],
        certificate: ServerCertificate | None = None,
    ) -> str:
        """Answer from now on, at a listening socket or at host and port; gives the address.

        With a certificate it speaks TLS alone. Raises OSError when the port is taken.
        """
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        if certificate:
            options = {"ssl": certificate.context, "ssl_handshake_timeout": HANDSHAKE_S_MAX}
        if isinstance(where, tuple):
            self._server = await loop.create_server(self._connection, *where, **options)
        else:
            self._server = await loop.create_server(self._connection, sock=where, **options)
        host, port = self._server.sockets[0].getsockname()[:2]
        scheme = "https" if certificate else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def stop(self) -> None:
        """Take no more connections, and end those that are there."""
        if self._server:
            self._server.close()
        await self._runner.cleanup()

    def _connection(self) -> "_Connection":
        server = self._runner.server
        if server is None:
            raise RuntimeError("connections come after the start")
        for oldest in server.connections[: 1 - CONNECTIONS_MAX]:
            if isinstance(oldest, _Connection):
                oldest.give_way()
        return _Connection(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # addresses may hold a token
            keepalive_timeout=IDLE_S_MAX,
            auto_decompress=False,  # what is not unpacked cannot explode
        )


class _Connection(web.RequestHandler):
    """Requests that are not valid HTTP get a status alone."""

    __slots__ = ()

    def give_way(self) -> None:
        """Close it: now, or once the request that is under way is answered."""
        if self._waiter and not self._waiter.done():
            self.force_close()
        else:
            self.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it may quote the request, and is not passed on
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer that has begun cannot become another one")
        is_bug = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        level = logging.ERROR if is_bug else logging.DEBUG  # anyone may send this without end
        _log.log(level, "answered %d", status, exc_info=exc if is_bug else None)
        response = _Nameless(status=status, text=HTTPStatus(status).phrase)
        response.force_close()
        return response


class _Nameless(web.Response):
    """No application prepares the answer to what could not be read as a request."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.SERVER, None)


async def without_name(_: Any, response: web.StreamResponse) -> None:
    """Remove the header that names software and versions."""
    response.headers.popall(hdrs.SERVER, None)
