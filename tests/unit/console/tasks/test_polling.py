"""What workers' answers say of lanes, and of whom nothing is heard any more."""

from aiohttp import web
from aiohttp.test_utils import TestServer

from services.console.state.lanes import ReportedLane
from services.console.tasks.polling import Poller, PollResults, WorkerStatus
from services.console.views.status import StuckLane
from tests.unit.console.context import NOWHERE

BODY = {
    "worker": "worker-3",
    "lanes": {"0": "opening", "1": "open", "2": "closed", "x": "open"},
    "stuck": {"0": "a record cannot be read"},
    "reasons": ["Kafka has not answered for 50 s"],
    "oldest_requests": {"1": {"profile": "vision", "state": "delayed"}, "0": 7},
}


def test_lanes_are_those_of_workers_that_have_them() -> None:
    results = PollResults(workers=[WorkerStatus("http://w:1", False, BODY, name="worker-3")])

    assert results.lanes == {
        0: ReportedLane("worker-3", "opening", "a record cannot be read"),
        1: ReportedLane("worker-3", "open", "", "vision", "delayed"),
    }
    assert results.stuck == [StuckLane(0, "http://w:1", "a record cannot be read")]
    assert results.worker_reasons == ["http://w:1: Kafka has not answered for 50 s"]


async def test_a_worker_that_is_killed_is_silent_at_once_and_known_by_its_name() -> None:
    async def ready(_: web.Request) -> web.Response:
        return web.json_response(BODY, status=503)

    application = web.Application()
    application.add_routes([web.get("/ready", ready)])
    server = TestServer(application)
    await server.start_server()
    poller = Poller(NOWHERE, "group", [str(server.make_url(""))])
    try:
        await poller.ask_workers()
        assert poller.results.silent_names == frozenset()
    finally:
        await server.close()
    await poller.ask_workers()

    assert poller.results.silent_names == {"worker-3"}
    (silent,) = poller.results.silent_workers
    assert silent.startswith("worker-3: ")
