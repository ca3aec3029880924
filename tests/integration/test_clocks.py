"""Workers whose clock is wrong, or becomes so: deadlines, duplicates and budgets hold."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from answerbus.topics import ATTEMPTS, LEDGER, REQUESTS, TOPICS
from tests.integration.bus import ANSWERED, ROOT, Bus, Worker, request, until
from tests.integration.fake_time import environment
from tests.integration.topic_settings import change_settings

pytestmark = pytest.mark.kafka

EXIT_SET_UP = 3
LIMIT_S = 60.0
HOUR_S = 3_600
RULES = [{"reply": ANSWERED}]


class Clock:
    """The clock of one worker's machine; right until it is set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set_off("+0")

    def set_off(self, by: str) -> None:
        self._file.write_text(by)

    @property
    def environment(self) -> Mapping[str, str]:
        """Lets a process have it."""
        return environment(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """A clock that can be moved."""
    return Clock(tmp_path / "shift")


def started(bus: Bus, config: Path, variables: Mapping[str, str] = {}) -> Worker:
    """A worker in an environment of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        return bus.start_worker(config)


def ahead_s(worker: Worker) -> float:
    """What it says of its machine's clock."""
    families = text_string_to_metric_families(worker.get("/metrics").decode())
    (family,) = (f for f in families if f.name == "answerbus_clock_ahead_seconds")
    return float(family.samples[0].value)


async def at_work(worker: Worker, bus: Bus) -> None:
    def is_open() -> bool:
        return list(worker.health["lanes"].values()) == ["open"] * bus.partitions

    await until(is_open, "its lanes are open", LIMIT_S)


async def test_a_worker_that_is_a_minute_behind_makes_no_call_after_the_deadline(bus: Bus) -> None:
    await bus.publish([request("r-late", "w-1", ttl_s=1)])
    await asyncio.sleep(1.5)
    worker = started(bus, bus.config(RULES), environment("-60s"))
    await bus.publish([request("r-1", "w-2", ttl_s=60)])
    terminals = {t["request_id"]: t for t in await bus.terminals(2)}

    assert terminals["r-late"]["cause"]["kind"] == "deadline_passed"
    assert [call["request_id"] for call in bus.calls()] == ["r-1"]
    assert terminals["r-1"]["kind"] == "result"
    await until(lambda: worker.health["ready"] is True, "it is ready")
    assert ahead_s(worker) == pytest.approx(-60, abs=5)


async def test_a_worker_that_is_a_minute_ahead_gives_up_no_request_before_its_deadline(
    bus: Bus,
) -> None:
    worker = started(bus, bus.config(RULES), environment("+60s"))
    await at_work(worker, bus)
    await bus.publish([request("r-1", "w-1", ttl_s=30)])

    assert [t["kind"] for t in await bus.terminals(1)] == ["result"]
    assert ahead_s(worker) == pytest.approx(60, abs=5)


@pytest.mark.parametrize(
    ("shift", "text"),
    [
        ("-26h", "93,6?? s behind"),
        ("-8d", "691,2?? s behind"),
        ("+26h", "93,6?? s ahead of"),
        ("-400s", "4?? s behind"),
    ],
)
async def test_a_clock_that_is_far_off_stops_the_start(bus: Bus, shift: str, text: str) -> None:
    inherited = dict(os.environ)  # noqa: TID251 - all but settings
    clean = {n: v for n, v in inherited.items() if not n.startswith("ANSWERBUS_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "services.cli", "worker", "--config", str(bus.config(RULES))),
        cwd=ROOT,
        env={**clean, **environment(shift)},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        _, error = await process.communicate()
    last = error.decode().splitlines()[-1]

    assert process.returncode == EXIT_SET_UP
    before, _, after = text.partition("?")
    assert last.startswith(f"The clock of this machine is {before}")
    assert f"{after.lstrip('?')} the broker's, and 300 s are the most" in last
    assert await bus.records(LEDGER) == []


async def is_wrong(worker: Worker) -> None:
    """Wait until it says of its clock that it is."""
    await until(lambda: not worker.health["ready"], "it is not ready", LIMIT_S)
    (reason,) = worker.health["reasons"]
    assert reason.startswith("the clock of this machine is ")
    assert abs(ahead_s(worker)) > 300


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "shift", ["-26h", *(pytest.param(shift, marks=LONG) for shift in ("-8d", "+26h", "+8d"))]
)
async def test_a_clock_that_jumps_while_it_works(bus: Bus, clock: Clock, shift: str) -> None:
    """It says so, and goes on by the broker's time: for others what it wrote is as young as it is.

    An account that spent all it had stays spent, and a duplicate a duplicate.
    """
    config = bus.config(RULES)
    worker = started(bus, config, clock.environment)
    await at_work(worker, bus)
    before = [request("r-before", "w-1")]
    await bus.publish(before)
    await bus.terminals(1)

    clock.set_off(shift)
    await is_wrong(worker)
    budget = {"attempts": 1}
    once = [
        request("r-1", "w-1", ttl_s=60),
        request("r-spends", "w-2", budget=budget),
    ]
    await bus.publish(once)
    assert [t["kind"] for t in await bus.terminals(3)] == ["result"] * 3
    clock.set_off("+0")
    await until(lambda: bool(worker.health["ready"]), "it is ready again", LIMIT_S)
    clock.set_off(shift)
    assert await asyncio.to_thread(worker.terminate) == 0

    right = started(bus, config)
    await at_work(right, bus)
    await bus.publish([*before, *once, request("r-more", "w-2", budget=budget)])
    terminals = {t["request_id"]: t for t in await bus.terminals(4)}
    assert terminals["r-more"]["cause"]["kind"] == "budget_exhausted"
    await until(lambda: right.health["duplicates"] == 3, "three duplicates", LIMIT_S)
    assert await asyncio.to_thread(right.terminate) == 0
    assert len(await bus.terminals(5, limit_s=1)) == 4
    assert len(bus.calls()) == 3


async def test_all_timestamps_are_the_brokers(bus: Bus, clock: Clock) -> None:
    """Retention, and a reader that restores from a topic, must not count from a worker's clock."""
    worker = started(bus, bus.config(RULES), clock.environment)
    await at_work(worker, bus)
    clock.set_off("-8d")
    await is_wrong(worker)
    await bus.publish([request("r-1", "w-1")])
    (result,) = await bus.terminals(1)
    await asyncio.to_thread(worker.terminate)

    for topic in TOPICS:
        for record in await bus.records(topic):
            assert abs(record.timestamp / 1000 - time.time()) < HOUR_S
    (attempt,) = await bus.everything(ATTEMPTS)
    for event in (result, attempt):
        moments = [text for name, text in event.items() if name.endswith("_at")]
        assert moments
        today = time.strftime("%Y-%m-", time.gmtime())
        assert all(moment.startswith(today) for moment in moments)


async def test_topics_of_before_keep_their_own_times_and_nothing_stops(
    bus: Bus, clock: Clock
) -> None:
    """Topics whose timestamps are their writers': a broker refuses those that are far off."""
    own = {"message.timestamp.type": "CreateTime"}
    others = [topic for topic in TOPICS if topic is not REQUESTS]
    await change_settings(bus, {topic: {**topic.settings(), **own} for topic in others})
    worker = started(bus, bus.config(RULES), clock.environment)
    await at_work(worker, bus)
    clock.set_off("+26h")
    await is_wrong(worker)
    await bus.publish([request("r-1", "w-1")])

    assert [t["kind"] for t in await bus.terminals(1)] == ["result"]
    assert json.dumps(worker.health["stuck"]) == "{}"
