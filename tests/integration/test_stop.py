"""A worker that is told to end, in the middle of calls: what its probes say, and what it costs."""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from infra.kafka import Broker, start_broker
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request, until

pytestmark = pytest.mark.kafka

CALLS = 4
CALL_S = 8.0
DRAIN_S = 20.0
LIMIT_S = 60.0
AFTER_DRAIN_S = 20.0  # what a supervisor gives beyond `drain_s` before it kills
PROBES = ("/live", "/started", "/ready")


async def in_calls(bus: Bus) -> Worker:
    """All that was published is at the provider."""
    rules = [{"reply": ANSWERED, "latency_s": CALL_S}]
    config = bus.config(rules, worker={"drain_s": DRAIN_S})
    worker = await asyncio.to_thread(bus.start_worker, config)
    await bus.publish([request(f"r-{n}", f"order-{n}") for n in range(CALLS)])
    await until(lambda: len(bus.calls()) == CALLS, "all are called", LIMIT_S)
    return worker


def status(worker: Worker, path: str) -> int:
    try:
        with urlopen(worker.addresses[0] + path, timeout=5) as answer:
            code: int = answer.status
    except HTTPError as error:
        return error.code
    return code


async def test_probes_stay_green_and_a_second_sigterm_cuts_no_call(bus: Bus) -> None:
    worker = await in_calls(bus)

    worker.process.send_signal(signal.SIGTERM)
    await until(lambda: "draining" in worker.health["lanes"].values(), "it drains", LIMIT_S)
    answered = await asyncio.to_thread(lambda: [status(worker, path) for path in PROBES])
    worker.process.send_signal(signal.SIGTERM)
    assert bus.ended_calls() == []  # or this test would test nothing
    code = await asyncio.to_thread(worker.process.wait, DRAIN_S + AFTER_DRAIN_S)
    found = await bus.terminals(CALLS)

    assert (code, answered) == (0, [200, 200, 200])
    assert {event["kind"] for event in found} == {"result"}
    assert Counter(call["request_id"] for call in bus.calls()) == {
        f"r-{n}": 1 for n in range(CALLS)
    }


@pytest.mark.long
async def test_a_worker_ends_in_time_while_kafka_is_away(
    brokers: list[Broker], tmp_path: Path
) -> None:
    (broker,) = brokers
    bus = Bus(broker.bootstrap_servers, "ending", 2, tmp_path)
    await create_topics(bus)
    try:
        worker = await in_calls(bus)
        broker.kill()
        began = time.monotonic()
        worker.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(worker.process.wait, DRAIN_S + AFTER_DRAIN_S)
        took_s = time.monotonic() - began
        brokers.append(start_broker(broker.data, broker.port))
        await asyncio.to_thread(bus.start_worker, tmp_path / "answerbus.toml")
        found = await bus.terminals(CALLS, LIMIT_S)
    finally:
        bus.stop_workers()

    assert (code, took_s < DRAIN_S + AFTER_DRAIN_S) == (0, True)
    assert len(found) == CALLS
    assert {event["kind"] for event in found} == {"result"}
