"""`/live` and `/ready` over HTTP: whether lanes go on, and which is stuck on what."""

from collections.abc import Mapping

from aiohttp import web

from services.settings import SetUpError
from services.worker.context import Context
from services.worker.lane.lane import State
from services.worker.lane.life import Life
from services.worker.lane.membership import Membership


def snapshot(lives: Mapping[int, Life], context: Context) -> tuple[bool, dict[str, object]]:
    """Whether the worker is ready, and what it would tell an operator."""
    stuck = {str(p): life.stuck for p, life in lives.items() if life.stuck}
    sick = {
        name: backend.gate.sick
        for name, backend in context.planner.backends.items()
        if backend.gate.sick
    }
    opening = [p for p, life in lives.items() if life.lane.state is State.OPENING]
    body: dict[str, object] = {
        "worker": context.worker,
        "lanes": {str(p): life.lane.state.name.lower() for p, life in sorted(lives.items())},
        "stuck": stuck,
        "sick_profiles": sick,
        "in_flight": sum(len(life.lane.calls) for life in lives.values()),
        "held": context.tally.held,
        "duplicates": context.tally.duplicates,
        "forwarded": context.tally.forwarded,
        "unread": context.tally.unread,
    }
    return not (stuck or sick or opening), body


class Health:
    """The server of one worker."""

    def __init__(self, place: str, membership: Membership, context: Context) -> None:
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise SetUpError(f"`worker.health` must be HOST:PORT, not {place!r}.")
        self._host, self._port = host, int(port)
        self._membership, self._context = membership, context
        application = web.Application()
        application.add_routes([web.get("/live", self._live), web.get("/ready", self._ready)])
        self._runner = web.AppRunner(application, access_log=None)

    async def start(self) -> str:
        """Listen; give the address. Raises SetUpError when the port is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise SetUpError(
                f"The health port {self._host}:{self._port} is taken; set `worker.health` to "
                "another, or to port 0 for any free one."
            ) from None
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _live(self, _: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        ready, body = snapshot(self._membership.lives, self._context)
        return web.json_response({"ready": ready, **body}, status=200 if ready else 503)
