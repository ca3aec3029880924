"""`/live` and `/metrics` of `answerbus shadow`, over HTTP."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from services.http.server import PROBES_END_S, HttpServer, without_name
from services.settings.settings import SetUpError
from services.telemetry.counts import Counts
from services.telemetry.exposition import CONTENT_TYPE, exposition
from services.telemetry.metrics import SHADOW_METRICS
from services.text.host_and_port import host_and_port
from services.worker.core.health_hosts import is_meant


@asynccontextmanager
async def serving_health(place: str, counts: Counts) -> AsyncIterator[str]:
    """Served at HOST:PORT; gives the address. Raises SetUpError."""
    if (found := host_and_port(place)) is None:
        raise SetUpError(f"`--health` must be HOST:PORT, not {place!r}.")
    server = HttpServer(_application((found[0], socket.gethostname()), counts), PROBES_END_S)
    try:
        try:
            address = await server.start(found)
        except OSError:
            raise SetUpError(
                f"The health port {place} is taken; give another --health, or port 0 for any free "
                "one."
            ) from None
        yield address
    finally:
        await server.stop()


def _application(hosts: tuple[str, ...], counts: Counts) -> web.Application:
    @web.middleware
    async def meant_alone(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """See health_hosts."""
        if is_meant(request.headers.get("Host"), hosts):
            return await handler(request)
        return web.Response(status=HTTPStatus.MISDIRECTED_REQUEST, text="Ask its address.\n")

    async def live(_: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def metrics(_: web.Request) -> web.Response:
        text = exposition(counts.samples(), counts.spreads, SHADOW_METRICS)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    application = web.Application(middlewares=[meant_alone])
    application.on_response_prepare.append(without_name)
    application.add_routes([web.get("/live", live), web.get("/metrics", metrics)])
    return application
