"""A request that ends its worker, again and again, among others that have nothing to do with it."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from answerbus.partition import partition_of
from answerbus.topics import DEAD_LETTERS
from tests.integration.bus import ANSWERED, Bus, Worker, request, until

pytestmark = pytest.mark.kafka

RULES: list[dict[str, Any]] = [
    {"when": {"request_id": "poison"}, "reply": {"kind": "hang"}},
    {"reply": ANSWERED, "latency_s": 2.0},
]
EACH = 3  # innocents in each lane
CRASHES_MAX = 20
LIMIT_S = 600.0
ROOM: dict[str, Any] = {"budget": {"attempts": 100}, "ttl_s": 3_600}


def config(bus: Bus) -> Path:
    """A static member: a group waits for the session of one that is gone, otherwise."""
    path = bus.config(RULES, worker={"name": "worker-0"})
    static = path.read_text().replace("[kafka]\n", '[kafka]\ngroup_instance_id = "one"\n')
    path.write_text(static)
    return path


def workflow_in(bus: Bus, partition: int, number: int) -> str:
    names = (f"w-{n}" for n in range(10_000))
    mine = [name for name in names if partition_of(name, bus.partitions) == partition]
    return mine[number]


def poisoned(bus: Bus, worker: Worker) -> bool:
    """Whether this worker has called for the request that ends it."""
    pid = worker.process.pid
    return any(c["request_id"] == "poison" and c["pid"] == pid for c in bus.calls())


@pytest.mark.long
async def test_only_what_ends_its_worker_is_given_up(bus: Bus) -> None:
    """All others are answered, of its lane and of the others of its worker."""
    settings = config(bus)
    good_requests = [
        request(f"r-{partition}-{number}", workflow_in(bus, partition, number), **ROOM)
        for partition in range(bus.partitions)
        for number in range(EACH)
    ]
    await bus.publish([request("poison", workflow_in(bus, 1, 9), **ROOM), *good_requests])
    crashes, deadline = 0, time.monotonic() + LIMIT_S
    worker = bus.start_worker(settings)
    dead_letters: list[dict[str, Any]] = []
    while not dead_letters:
        assert time.monotonic() < deadline
        if poisoned(bus, worker):
            worker.kill()
            crashes += 1
            worker = bus.start_worker(settings)
        await asyncio.sleep(0.1)
        dead_letters = await bus.everything(DEAD_LETTERS)

    assert [(e["request_id"], e["cause"]["kind"]) for e in dead_letters] == [
        ("poison", "crashed_worker")
    ]
    assert 10 < crashes <= CRASHES_MAX
    ended = await bus.terminals(len(good_requests) + 1)
    kinds = {event["request_id"]: event["kind"] for event in ended}
    assert kinds == {
        "poison": "dead_letter",
        **{str(body["request_id"]): "result" for body in good_requests},
    }
    assert worker.terminate() == 0


@pytest.mark.long
async def test_ten_kills_that_no_request_caused_lose_none(bus: Bus) -> None:
    settings = config(bus)
    names = [f"r-{partition}" for partition in range(bus.partitions)]
    await bus.publish(
        request(name, workflow_in(bus, partition, 0), **ROOM)
        for partition, name in enumerate(names)
    )
    for _ in range(10):
        worker, before = bus.start_worker(settings), len(bus.ended_calls())
        pid = worker.process.pid
        await until(
            lambda pid=pid, before=before: (  # type: ignore[misc]
                any(call["pid"] == pid for call in bus.calls())
                or len(bus.ended_calls()) > before
                or len(bus.ended_calls()) >= len(names)
            ),
            "a call is in flight",
            60,
        )
        worker.kill()
    worker = bus.start_worker(settings)
    ended = await bus.terminals(len(names), 120)
    assert {event["request_id"]: event["kind"] for event in ended} == dict.fromkeys(names, "result")
    assert worker.terminate() == 0
