"""Limits of a profile hold for two real workers together, by what the provider itself saw."""

import asyncio
import json

import pytest

from tests.integration.bus import ANSWERED, Bus, request, until
from tests.integration.evidence import JsonObject

pytestmark = pytest.mark.kafka

IN_FLIGHT_MAX = 4  # of 4 lanes
REQUESTS = 32
LIMIT_S = 60.0
RULES: list[JsonObject] = [
    {"reply": ANSWERED, "latency_s": {"median_s": 0.2, "sigma": 0.1, "max_s": 0.5}}
]


def most_at_once(bus: Bus) -> int:
    """The journal's lines are in the order in which calls began and ended."""
    running = most = 0
    for line in bus.journal.read_text().splitlines():
        entry = json.loads(line)
        running += 1 if entry["event"] == "start" else -1
        most = max(most, running)
    return most


async def test_calls_at_once_of_two_workers_together(bus: Bus) -> None:
    bus.config(RULES)
    config = bus.settings(bus.scripted("default", max_in_flight=IN_FLIGHT_MAX))
    workers = [await asyncio.to_thread(bus.start_worker, config) for _ in range(2)]

    def is_even() -> bool:
        lanes = [list(worker.health["lanes"].values()) for worker in workers]
        return [states.count("open") for states in lanes] == [2, 2]

    await until(is_even, "each has two lanes, and both are open", LIMIT_S)
    await bus.publish([request(f"r-{n}", f"order-{n}") for n in range(REQUESTS)])
    await bus.terminals(REQUESTS, LIMIT_S)
    started = [json.loads(worker.get("/started")) for worker in workers]
    callers = {call["pid"] for call in bus.calls()}

    assert started == [{"started": True}] * 2
    assert callers == {worker.process.pid for worker in workers}
    assert most_at_once(bus) == IN_FLIGHT_MAX
    assert [worker.terminate() for worker in workers] == [0, 0]
