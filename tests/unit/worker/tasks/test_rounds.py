"""Background tasks that no error ends, and what is said of a worker that has never joined."""

import asyncio
import logging
from typing import Any

import pytest
from faststream import FastStream
from faststream.kafka import KafkaBroker

from services.settings.settings import KafkaSettings
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka import clock_check
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.health.probe import PROBE_EVERY_S, Probe
from services.worker.health.verdict import judge
from services.worker.main import stop_on_failure
from tests.unit.worker.adapters.kafka.polling import Consumers
from tests.unit.worker.health.watch import BOUND_S, health_inputs
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time, run


def test_no_error_ends_the_watch_over_the_clock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a client may raise that reads a strange answer."""
    asked: list[float] = []

    async def asks(*_: Any) -> None:
        asked.append(asyncio.get_running_loop().time())
        raise ValueError("a secret of the answer") if len(asked) < 20 else KeyError("other")

    async def main() -> None:
        monkeypatch.setattr(clock_check, "_ask", asks)
        watching = asyncio.create_task(clock_check.watch_clock(KafkaSettings(), BrokerClock()))
        await asyncio.sleep(40 * clock_check.LOOK_EVERY_S)
        assert not watching.done()
        watching.cancel()
        await asyncio.wait([watching])

    run(main())
    assert len(asked) >= 40
    failures = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(failures) == 2, "one for each cause"


async def test_a_background_task_that_fails_ends_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        raise KeyError("a bug")

    application = FastStream(KafkaBroker())
    for work, ends in ((asyncio.sleep(0), False), (asyncio.sleep(60), False), (fails(), True)):
        task: asyncio.Task[None] = asyncio.create_task(work)
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        await asyncio.wait([task])
        stop_on_failure(application, task)
        assert application._should_exit is ends
    assert "KeyError" in caplog.text


@on_virtual_time
async def test_no_error_ends_the_question_for_ends() -> None:
    async def fails() -> dict[int, int]:
        raise OSError

    async def diagnoses() -> str | None:
        raise ValueError("a bug")

    probe = Probe(fails, diagnoses)
    asking = asyncio.create_task(probe.run())
    await asyncio.sleep(5 * PROBE_EVERY_S)
    assert not asking.done()
    assert probe.trouble is not None
    asking.cancel()
    await asyncio.wait([asking])


@on_virtual_time
async def test_no_error_ends_the_watch_over_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = ReadMonitor()
    consumers = Consumers(reading)
    renewal = consumers.renewal()
    real = reading.beyond_recovery
    calls: list[int] = []

    def breaks(*bounds: float) -> str | None:
        calls.append(1)
        if len(calls) < 3:
            raise RuntimeError("a bug")
        return real(*bounds)

    monkeypatch.setattr(reading, "beyond_recovery", breaks)
    renewal.start()
    await asyncio.sleep(60)
    await renewal.stop()

    assert consumers.made_at, "nobody has polled, and the consumer is replaced"


@on_virtual_time
async def test_a_worker_that_has_never_joined_its_group_is_not_ready_for_ever() -> None:
    stage = Stage()
    membership = Membership(lambda: pytest.fail("no consumer"), lambda _: pytest.fail("no life"))
    watched = health_inputs(membership, stage.context)
    tasks = [asyncio.create_task(of.run()) for of in (watched.probe, watched.loop_monitor)]
    await asyncio.sleep(BOUND_S - 1)
    assert judge(watched).ready
    await asyncio.sleep(2)
    reported = judge(watched).reasons
    watched.coordinator.trouble = "GroupCoordinatorNotAvailableError: why"
    named = judge(watched).reasons
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await stage.worker.drain()

    outside = "has been no member of the consumer group for 46 s: "
    assert reported == (f"{outside}it has never joined",)
    assert named == (
        f"{outside}the group has no coordinator (GroupCoordinatorNotAvailableError: why)",
    )
