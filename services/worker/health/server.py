"""`/live`, `/started`, `/ready` and `/metrics` of a worker, over HTTP."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from http import HTTPStatus
from itertools import chain

from aiohttp import web

from answerbus.masking import NO_MASK, Mask
from services.http.server import PROBES_END_S, HttpServer, without_name
from services.settings.settings import SetUpError
from services.telemetry.counts import Counts
from services.telemetry.exposition import CONTENT_TYPE, exposition
from services.text.host_and_port import host_and_port
from services.worker.core.health_hosts import is_meant
from services.worker.health.gauges import gauges
from services.worker.health.loop_monitor import TICK_S
from services.worker.health.reasons import advice
from services.worker.health.verdict import body_of, judge
from services.worker.health.watched import HealthInputs

HEARTBEAT_S_MAX = 30.0  # a loop that goes on has ticked a hundred times by then


class Health:
    """The server of one worker, and the tasks that watch it."""

    def __init__(
        self,
        place: str,
        inputs: HealthInputs,
        counts: Counts,
        hosts: Iterable[str] = (),
        mask: Mask = NO_MASK,
    ) -> None:
        if (found := host_and_port(place)) is None:
            raise SetUpError(f"`worker.health` must be HOST:PORT, not {place!r}.")
        self._host, self._port = found
        self._watched, self._counts = inputs, counts
        self._hosts = (*hosts, self._host, socket.gethostname())
        self._json = partial(web.json_response, dumps=lambda body: mask(json.dumps(body)))
        application = web.Application(middlewares=[self._meant_alone])
        application.on_response_prepare.append(without_name)
        application.add_routes(
            [
                web.get("/live", self._live),
                web.get("/started", self._started),
                web.get("/ready", self._ready),
                web.get("/metrics", self._metrics),
            ]
        )
        self._server = HttpServer(application, PROBES_END_S)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> str:
        """Listen; give the address. Raises SetUpError when the port is taken."""
        try:
            address = await self._server.start((self._host, self._port))
        except OSError:
            await self._server.stop()
            raise SetUpError(
                f"The health port {self._host}:{self._port} is taken; set `worker.health` to "
                "another, or to port 0 for any free one."
            ) from None
        watching = (self._watched.loop_monitor.run(), self._watched.probe.run())
        self._tasks = [asyncio.create_task(task) for task in watching]
        return address

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop()

    @web.middleware
    async def _meant_alone(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """See core/health_hosts.py."""
        if is_meant(request.headers.get("Host"), self._hosts):
            return await handler(request)
        text = "This worker is not asked by that name: add it to `worker.health_hosts`, or ask its "
        return web.Response(status=HTTPStatus.MISDIRECTED_REQUEST, text=f"{text}address.\n")

    async def _live(self, _: web.Request) -> web.Response:
        if self._heartbeat_s() > HEARTBEAT_S_MAX:
            # A process that wakes up may be asked before it has ticked.
            await asyncio.sleep(2 * TICK_S)
        live = self._heartbeat_s() <= HEARTBEAT_S_MAX
        return self._json({"live": live}, status=200 if live else 503)

    async def _started(self, _: web.Request) -> web.Response:
        """Once it has joined its group; providers and lanes do not count: for roll-outs."""
        started = self._watched.membership.was_member
        return self._json({"started": started}, status=200 if started else 503)

    async def _ready(self, _: web.Request) -> web.Response:
        verdict = judge(self._watched)
        body = body_of(verdict, self._watched) | {"advice": advice(self._watched)}
        return self._json(body, status=200 if verdict.ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        now = gauges(judge(self._watched), self._watched)
        text = exposition(chain(self._counts.samples(), now), self._counts.spreads)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    def _heartbeat_s(self) -> float:
        return asyncio.get_running_loop().time() - self._watched.loop_monitor.ticked_at
