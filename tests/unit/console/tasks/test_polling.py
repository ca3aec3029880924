"""What workers' answers say of lanes, and of whom nothing is heard any more."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiokafka import TopicPartition

from services.console.state.lanes import ReportedLane
from services.console.tasks import polling
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


async def test_a_password_in_an_address_is_sent_and_not_shown() -> None:
    asked: list[web.Request] = []

    async def ready(request: web.Request) -> web.Response:
        asked.append(request)
        return web.json_response(BODY, headers={"Content-Encoding": "gzip"})

    application = web.Application()
    application.add_routes([web.get("/ready", ready)])
    async with TestServer(application) as server:
        url = str(server.make_url(""))
        poller = Poller(NOWHERE, "group", [url.replace("//", "//me:hunter2@")])
        await poller.ask_workers()

    (worker,) = poller.results.workers
    assert worker.address == url
    assert worker.body, "what says that it is packed is not unpacked"
    assert asked[0].headers["Authorization"] == f"Basic {b64encode(b'me:hunter2').decode()}"
    assert asked[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' + b" " * 5_000_000, b"\xff", b"[]"])
async def test_what_is_no_answer_of_a_worker_ends_nothing(body: bytes) -> None:
    application = web.Application()

    async def ready(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application.add_routes([web.get("/ready", ready)])
    async with TestServer(application) as server:
        poller = Poller(NOWHERE, "group", [str(server.make_url(""))])
        await poller.ask_workers()

    assert [worker.error for worker in poller.results.workers] == ["no object"]


async def test_markers_are_looked_for_at_first_and_where_a_gap_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[Mapping[TopicPartition, Any]] = []

    async def all_are_markers(_: Any, gaps: Mapping[TopicPartition, Any]) -> frozenset[Any]:
        looked.append(dict(gaps))
        return frozenset(gaps)

    monkeypatch.setattr(polling, "marker_gaps", all_are_markers)
    poller, at = Poller(NOWHERE, "group", []), TopicPartition("requests", 0)

    assert at in await poller._only_markers({at: (1, 2)})
    assert at not in await poller._only_markers({at: (2, 4)}), "it moves"
    assert at in await poller._only_markers({at: (2, 4)})
    assert looked == [{at: (1, 2)}, {}, {at: (2, 4)}]


async def test_all_is_asked_once_the_lag_and_each_worker_are_known() -> None:
    poller = Poller(NOWHERE, "group", ["http://127.0.0.1:1"])
    poller.results.lag = {0: 0}
    assert not poller.has_asked_all

    await poller.ask_workers()

    assert poller.has_asked_all, "one that does not answer was asked as well"
