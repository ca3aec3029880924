"""Workers that die, leave, join, sleep, and a broker that dies, in the middle of 200 requests."""

import asyncio
import os
import signal
import time
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from answerbus.topics import ATTEMPTS, RETRIES
from infra.kafka import Broker, start_broker
from tests.integration.bus import ANSWERED, Bus, create_topics, request, until
from tests.integration.evidence import (
    CallKey,
    Evidence,
    JsonObject,
    assert_sound,
    collect,
)

pytestmark = pytest.mark.kafka

REQUESTS = 200
WORKFLOWS = 40
SOME = 60  # calls have ended: the middle
IN_FLIGHT = 16
LIMIT_S = 60.0
DRAIN_LIMIT_S = 15.0
PERMIT = timedelta(seconds=5)
RULES: list[JsonObject] = [
    {"reply": ANSWERED, "latency_s": {"median_s": 0.2, "sigma": 0.6, "max_s": 1.0}}
]
SLOWER: list[JsonObject] = [
    {"reply": ANSWERED, "latency_s": {"median_s": 0.5, "sigma": 0.4, "max_s": 1.0}}
]


def bodies() -> list[JsonObject]:
    """The same for all tests: five requests each for forty workflows, with room for repeats."""
    return [
        request(f"r-{n}", f"order-{n % WORKFLOWS}", budget={"attempts": 20})
        for n in range(REQUESTS)
    ]


def config(bus: Bus, rules: list[JsonObject] = RULES, in_flight: int = IN_FLIGHT) -> Path:
    return bus.config(rules, worker={"max_in_flight": in_flight})


def keys(entries: list[JsonObject]) -> Counter[CallKey]:
    return Counter((entry["request_id"], entry["attempt"]) for entry in entries)


async def some_ended(bus: Bus, count: int = SOME) -> None:
    await until(lambda: len(bus.ended_calls()) >= count, f"{count} calls have ended", LIMIT_S)


async def over(bus: Bus, count: int = REQUESTS) -> Evidence:
    """What is left when all is answered and the last worker has drained: each request's terminal.

    No spend was called twice, and each call had its spend; workflows kept their order.
    """
    await bus.terminals(count, LIMIT_S)
    for worker in bus.workers:
        if worker.process.poll() is None:
            assert worker.terminate() == 0
    evidence = await collect(bus)
    assert_sound(evidence)
    results = Counter(e["request_id"] for e in evidence.terminals if e["kind"] == "result")
    assert results == Counter(f"r-{n}" for n in range(count))
    assert len(evidence.terminals) == count
    called = keys(bus.calls())
    assert set(called.values()) == {1}
    assert set(called) <= set(keys(evidence.bodies(ATTEMPTS)))
    assert_in_order(bus)
    return evidence


def assert_in_order(bus: Bus) -> None:
    """No request of a workflow is called before the one that was published before it is done."""
    order = defaultdict(list)
    for call in bus.calls():
        number = int(call["request_id"].removeprefix("r-"))
        order[number % WORKFLOWS].append(number)
    assert all(numbers == sorted(numbers) for numbers in order.values())


def unknown(evidence: Evidence) -> set[CallKey]:
    """The spends that were written off."""
    return set(keys([a for a in evidence.bodies(ATTEMPTS) if a["outcome"] == "unknown"]))


async def test_after_a_kill_only_what_was_in_flight_is_called_again(bus: Bus) -> None:
    killed = bus.start_worker(config(bus))
    await bus.publish(bodies())
    await some_ended(bus)
    killed.kill()
    # A call that has ended without a committed outcome is as lost as one that has not ended.
    called, settled = keys(bus.calls()), keys(await bus.everything(ATTEMPTS))
    unfinished = called - keys(bus.ended_calls())
    in_flight = called - settled
    bus.start_worker(config(bus))
    evidence = await over(bus)

    assert unfinished  # or this test would test nothing
    assert len(bus.calls()) <= REQUESTS + len(in_flight)
    assert set(unfinished) <= unknown(evidence)
    again = {name for name, count in calls_per_request(bus).items() if count > 1}
    assert again <= {request_id for request_id, _ in in_flight}


def calls_per_request(bus: Bus) -> Counter[str]:
    return Counter(call["request_id"] for call in bus.calls())


async def test_a_drain_finishes_what_was_called_and_nothing_is_called_again(bus: Bus) -> None:
    first = bus.start_worker(config(bus))
    await bus.publish(bodies())
    await some_ended(bus)
    began = time.monotonic()
    code = first.terminate()
    took_s = time.monotonic() - began
    called_by_first = len(bus.calls())
    ended = keys(bus.ended_calls())
    bus.start_worker(config(bus))
    evidence = await over(bus)

    assert (code, took_s < DRAIN_LIMIT_S) == (0, True)
    assert called_by_first < REQUESTS
    assert called_by_first == len(list(ended.elements()))
    assert {entry["reply"] for entry in bus.ended_calls()} == {"answered"}
    assert calls_per_request(bus) == Counter(body["request_id"] for body in bodies())
    assert unknown(evidence) == set()


@pytest.mark.long
async def test_a_worker_that_joins_and_leaves_repeats_no_call(bus: Bus) -> None:
    """The new owner of a partition waits until its predecessor's calls have ended."""
    settings = config(bus, SLOWER, in_flight=6)
    bus.start_worker(settings)
    await bus.publish(bodies())
    await some_ended(bus, 20)
    second = bus.start_worker(settings)
    pid = second.process.pid
    await until(lambda: sum(c["pid"] == pid for c in bus.calls()) > 10, "the second has its share")
    assert len(bus.ended_calls()) < REQUESTS - IN_FLIGHT  # it leaves in the middle, too
    assert second.terminate() == 0
    evidence = await over(bus)

    assert calls_per_request(bus) == Counter(body["request_id"] for body in bodies())
    assert unknown(evidence) == set()


RETRY_AFTER_S = 8.0


@pytest.mark.long
async def test_a_retry_that_waits_survives_a_kill_and_its_workflow_waits_with_it(bus: Bus) -> None:
    throttled = {"kind": "throttled", "retry_after_s": RETRY_AFTER_S}
    rules: list[JsonObject] = [
        {"when": {"request_id": "r-0", "attempt": 1}, "reply": throttled},
        {"reply": ANSWERED},
    ]
    killed = bus.start_worker(config(bus, rules))
    await bus.publish([request(f"r-{n}", "order-0") for n in (0, 1, 2)])
    await until(lambda: len(bus.ended_calls()) == 1, "the first is called")
    while not (waiting := await bus.everything(RETRIES)):
        await asyncio.sleep(0.05)
    killed.kill()
    bus.start_worker(config(bus, rules))
    evidence = await over(bus, 3)

    (retry,) = waiting
    assert list(keys(bus.calls())) == [("r-0", 1), ("r-0", 2), ("r-1", 1), ("r-2", 1)]
    assert bus.calls()[1]["at"] >= retry["not_before"]
    assert evidence.terminal("r-0")["attempt"] == 2
    assert unknown(evidence) == set()


@pytest.mark.long
async def test_a_worker_that_slept_too_long_does_no_harm(bus: Bus) -> None:
    sleeper, other = bus.start_worker(config(bus)), bus.start_worker(config(bus))
    pids = {worker.process.pid for worker in (sleeper, other)}
    await bus.publish(bodies())
    await until(lambda: {c["pid"] for c in bus.calls()} == pids, "both have their share", LIMIT_S)
    await some_ended(bus, 30)
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    asleep = keys(bus.calls()) - keys(bus.ended_calls())
    await bus.terminals(REQUESTS, LIMIT_S)  # the other one has taken over
    os.kill(sleeper.process.pid, signal.SIGCONT)
    await bus.publish([request(f"r-{n}", f"order-{n % WORKFLOWS}") for n in range(200, 240)])
    evidence = await over(bus, 240)

    assert asleep  # or this test would test nothing
    spent_at = {
        (a["request_id"], a["attempt"]): datetime.fromisoformat(a["started_at"])
        for a in evidence.bodies(ATTEMPTS)
    }
    for call in bus.calls():
        at = datetime.fromisoformat(call["at"])
        assert at - spent_at[call["request_id"], call["attempt"]] <= PERMIT


async def test_a_broker_that_dies_and_comes_back_costs_no_answer(
    brokers: list[Broker], tmp_path: Path
) -> None:
    (broker,) = brokers
    bus = Bus(broker.bootstrap_servers, "restarted", 4, tmp_path)
    await create_topics(bus)
    bus.start_worker(config(bus))
    try:
        await bus.publish(bodies())
        await some_ended(bus)
        broker.kill()
        brokers.append(start_broker(broker.data, broker.port))
        evidence = await over(bus)
    finally:
        bus.stop_workers()

    assert len(bus.workers) == 1  # the one that was there has come through
    assert len(bus.calls()) <= REQUESTS + len(unknown(evidence))
