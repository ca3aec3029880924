"""The three pages of a worker over HTTP, and what each of them hangs on."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

import pytest
from aiohttp import ClientSession

from services.settings.settings import SetUpError
from services.telemetry.counts import Counts
from services.worker.adapters.kafka.membership import Membership
from services.worker.core.attempt.reply import Unavailable
from services.worker.health.loop_monitor import STALL_S
from services.worker.health.server import HEARTBEAT_S_MAX, Health
from services.worker.health.watched import HealthInputs
from services.worker.limits.slots import Reservation
from tests.unit.worker.health.watch import health_inputs
from tests.unit.worker.lane.world import FakeProvider, context


@dataclass
class Running:
    health: Health
    watched: HealthInputs
    address: str
    session: ClientSession

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.address + path) as response:
            return response.status, await response.text()


def nobody() -> None:
    raise AssertionError


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    membership = Membership(nobody, nobody)  # type: ignore[arg-type]  # not called
    around = context(FakeProvider())
    watched = health_inputs(membership, around)
    health = Health("127.0.0.1:0", watched, Counts())
    address = await health.start()
    async with ClientSession() as session:
        yield Running(health, watched, address, session)
    await health.stop()


async def test_a_worker_has_started_once_it_has_joined_whatever_comes_after(
    running: Running,
) -> None:
    before = await running.get("/started")
    running.watched.membership.assigned_at = 0.0
    running.watched.membership.outside_since = 0.0

    assert before == (503, '{"started": false}')
    assert await running.get("/started") == (200, '{"started": true}')


async def test_a_worker_without_partitions_is_live_and_ready(running: Running) -> None:
    assert await running.get("/live") == (200, '{"live": true}')

    status, body = await running.get("/ready")
    assert (status, body.startswith('{"ready": true, "worker": "me"')) == (200, True)

    status, text = await running.get("/metrics")
    assert (status, "answerbus_ready 1.0" in text) == (200, True)
    assert 'answerbus_profile_unhealthy{profile="default"} 0.0' in text


async def test_what_stands_is_503_and_a_gauge(running: Running) -> None:
    running.watched.probe.answered_at -= 100
    status, body = await running.get("/ready")

    assert status == 503
    assert re.search(r"Kafka has not answered for 1[012]\d s", body)
    assert "answerbus_ready 0.0" in (await running.get("/metrics"))[1]


@pytest.mark.wide
async def test_live_checks_twice_before_it_reports_a_blocked_loop(running: Running) -> None:
    running.watched.loop_monitor.ticked_at -= HEARTBEAT_S_MAX + 1  # who wakes up is asked first

    assert await running.get("/live") == (200, '{"live": true}')

    for task in running.health._tasks:
        task.cancel()
    running.watched.loop_monitor.ticked_at -= HEARTBEAT_S_MAX + 1
    assert await running.get("/live") == (503, '{"live": false}')


@pytest.mark.wide
async def test_a_blocked_loop_is_reported(running: Running) -> None:
    running.watched.loop_monitor._due_at -= STALL_S + 0.1
    await asyncio.sleep(0.5)

    loop = json.loads((await running.get("/ready"))[1])["loop"]
    assert loop["stalls"] >= 1
    assert loop["worst_s"] > STALL_S
    text = (await running.get("/metrics"))[1]
    found = re.search(r"\nanswerbus_event_loop_stalls_total (.+)", text)
    assert found
    assert float(found[1]) >= 1


async def test_a_place_that_is_none_is_a_set_up_error(running: Running) -> None:
    for place in ("8080", "localhost", ":8080", "localhost:http"):
        with pytest.raises(SetUpError, match="HOST:PORT"):
            Health(place, running.watched, Counts())


async def test_profiles_say_what_is_wrong_in_one_word_since_when_and_how_many_wait(
    running: Running,
) -> None:
    backend = running.watched.context.planner.backends["default"]
    backend.limiter.report(Unavailable(None, ran=False), 0.0, Reservation())
    backend.limiter.server.away_since = asyncio.get_running_loop().time() - 95.0

    status, body = await running.get("/ready")
    data = json.loads(body)

    assert status == 503
    assert [*data["unhealthy_profiles"]] == ["default"]
    said = re.fullmatch(
        r"no connection to its server for (\d+) s", data["unhealthy_profiles"]["default"]
    )
    assert said
    assert 95 <= int(said[1]) < 125
    assert data["sick_profiles"] == data["unhealthy_profiles"], "the name in the version before"
    assert data["unread"] == data["lost_to_retention"] == 0
    assert data["servers"] == {"default": "its server"}
    assert data["profiles"]["default"] | {"since": None} == {
        "problem": "no_connection",
        "since": None,
        "requests": 0,
        "oldest": None,
    }
    now = running.watched.context.clock.now()
    since = datetime.fromisoformat(data["profiles"]["default"]["since"])
    assert 94.0 < (now - since).total_seconds() < 125.0


async def test_a_client_that_does_not_go_on_holds_the_end_up_for_seconds_only(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.worker.health.server.PROBES_END_S", 0.2)
    health = Health("127.0.0.1:0", running.watched, Counts())
    port = int((await health.start()).rsplit(":", 1)[1])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
    await asyncio.sleep(0.1)

    async with asyncio.timeout(5.0):
        await health.stop()
    writer.close()
