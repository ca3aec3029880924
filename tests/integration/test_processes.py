"""`answerbus worker --processes N`: workers that share limits, are replaced, and leave together."""

import asyncio
import json
import os
import re
import signal

import pytest

from answerbus.topics import RESULTS
from tests.integration.bus import ANSWERED, Bus, Worker, fetch, request, until
from tests.integration.evidence import JsonObject

pytestmark = pytest.mark.kafka

PROCESSES = 2
REQUESTS = 80
LIMIT_S = 60.0
RULES: list[JsonObject] = [
    {"reply": ANSWERED, "latency_s": {"median_s": 0.3, "sigma": 0.3, "max_s": 1.0}}
]


def bodies(first: int = 0) -> list[JsonObject]:
    numbers = range(first, first + REQUESTS)
    return [request(f"r-{n}", f"order-{n % 40}", budget={"attempts": 20}) for n in numbers]


def start(bus: Bus) -> Worker:
    settings = bus.config(RULES, worker={"max_in_flight": 20})
    return bus.start_worker(settings, "--processes", str(PROCESSES))


def callers(bus: Bus) -> set[int]:
    return {call["pid"] for call in bus.calls()}


def digests(worker: Worker) -> set[str]:
    """Of the settings in force in each process."""
    ready = (json.loads(fetch(f"{address}/ready")) for address in worker.addresses)
    return {text["settings"]["digest"] for text in ready}


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_lane(worker: Worker, started: int) -> bool:
    """Whether the process that was started as number `started`, from 0, has an open lane."""
    if len(worker.addresses) <= started:
        return False
    lanes = json.loads(fetch(f"{worker.addresses[started]}/ready"))["lanes"]
    return "open" in lanes.values()


async def all_answered(bus: Bus, count: int) -> None:
    async def answered() -> set[str]:
        return {result["request_id"] for result in await bus.everything(RESULTS)}

    async with asyncio.timeout(LIMIT_S):
        while len(await answered()) < count:
            await asyncio.sleep(0.2)


@pytest.mark.long
async def test_processes_share_the_work_and_one_that_dies_is_replaced(bus: Bus) -> None:
    worker = start(bus)
    await bus.publish(bodies())
    await until(lambda: len(callers(bus)) == PROCESSES, "both have a share", LIMIT_S)
    (before,) = digests(worker)
    bus.config(RULES, worker={"max_in_flight": 40})
    worker.process.send_signal(signal.SIGHUP)
    await until(lambda: len({before, *digests(worker)}) == 2, "one took other settings", LIMIT_S)
    await until(lambda: len(digests(worker)) == 1, "and so did the other", LIMIT_S)
    victim = min(callers(bus))
    os.kill(victim, signal.SIGKILL)
    await all_answered(bus, REQUESTS)
    await until(lambda: has_lane(worker, PROCESSES), "another has taken its place", LIMIT_S)
    await bus.publish(bodies(REQUESTS))
    await all_answered(bus, 2 * REQUESTS)

    assert len(callers(bus)) == PROCESSES + 1
    assert worker.process.pid not in callers(bus)
    assert worker.terminate() == 0
    assert not any(is_there(pid) for pid in callers(bus))
    ours = [
        line for line in worker.log() if line["logger"] == "services.worker.processes.supervisor"
    ]
    assert len(ours) == 1, ours
    error = ours[0]["message"]
    assert re.fullmatch(r"worker process [01] exited with code -9, restarting", error)


@pytest.mark.long
async def test_workers_end_when_the_command_itself_was_killed(bus: Bus) -> None:
    worker = start(bus)
    await bus.publish(bodies())
    await until(lambda: len(callers(bus)) == PROCESSES, "both have a share", LIMIT_S)
    worker.kill()

    await until(lambda: not any(map(is_there, callers(bus))), "all have drained", LIMIT_S)
