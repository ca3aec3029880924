"""Three brokers under load: each that leads something dies and returns, and then two at once."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from answerbus.topics import REQUESTS
from infra.kafka import Cluster
from tests.chaos.audit.reading import read_history
from tests.chaos.auditor import audit
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request, until
from tests.integration.quorum import controller_of, coordinator_of, leader_of

pytestmark = pytest.mark.kafka

MANY = 200
WORKFLOWS = 40
PARTITIONS = 4
LIMIT_S = 180.0
AWAY_S = 60.0  # without a majority
STUCK_AFTER_S = 10.0
ATTEMPTS = {"attempts": 20}
LATENCY = {"median_s": 0.3, "sigma": 0.5, "max_s": 1.0}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.long
async def test_no_promise_is_broken_when_one_of_three_brokers_dies_and_returns(
    cluster: Cluster, tmp_path: Path
) -> None:
    bus = Bus(cluster.bootstrap_servers, "three", PARTITIONS, tmp_path)
    await create_topics(bus, cluster.size)
    config = bus.config([{"reply": ANSWERED, "latency_s": LATENCY}], worker={"max_in_flight": 16})
    bodies = [request(f"r-{n}", f"order-{n % WORKFLOWS}", budget=ATTEMPTS) for n in range(MANY)]
    try:
        worker = bus.start_worker(config)
        await bus.publish(bodies)
        await until(lambda: len(bus.ended_calls()) >= MANY // 5, "some calls have ended")
        cluster.kill(0)
        ended = len(bus.ended_calls())
        await until(
            lambda: len(bus.ended_calls()) >= ended + MANY // 5, "it goes on with two", LIMIT_S
        )
        await asyncio.to_thread(cluster.start)
        found = await bus.terminals(MANY, LIMIT_S)
        await until(lambda: bool(worker.health["ready"]), "the worker is ready", LIMIT_S)
        assert worker.terminate() == 0
    finally:
        bus.stop_workers()

    assert {event["request_id"] for event in found} == {body["request_id"] for body in bodies}
    history = await asyncio.to_thread(
        read_history, cluster.bootstrap_servers, bus.prefix, bus.journal
    )
    assert list(map(str, audit(history))) == []


@pytest.fixture
async def at_work(cluster: Cluster, tmp_path: Path) -> AsyncIterator[tuple[Bus, Worker]]:
    """A bus whose worker has answered something."""
    bus = Bus(cluster.bootstrap_servers, "three", PARTITIONS, tmp_path)
    await create_topics(bus, cluster.size)
    config = bus.config(
        [{"reply": ANSWERED, "latency_s": LATENCY}], worker={"stuck_after_s": STUCK_AFTER_S}
    )
    try:
        worker = await asyncio.to_thread(bus.start_worker, config)
        await bus.publish(batch("first"))
        await until(lambda: bool(bus.ended_calls()), "it answers", LIMIT_S)
        yield bus, worker
    finally:
        bus.stop_workers()


def batch(name: str) -> list[dict[str, Any]]:
    return [
        request(f"{name}-{n}", f"order-{n % WORKFLOWS}", budget=ATTEMPTS) for n in range(WORKFLOWS)
    ]


async def is_right(bus: Bus, worker: Worker, batches: int) -> None:
    """Each request has its one outcome, and no promise was broken."""
    found = await bus.terminals(batches * WORKFLOWS, LIMIT_S)
    assert len({event["request_id"] for event in found}) == batches * WORKFLOWS, worker.health
    history = await asyncio.to_thread(read_history, bus.bootstrap, bus.prefix, bus.journal)
    assert list(map(str, audit(history))) == []


def says_which(worker: Worker, cluster: Cluster, away: tuple[int, ...]) -> bool:
    """Whether `/ready` names the brokers that are away, and no others."""
    addresses = cluster.bootstrap_servers.split(",")
    named = " ".join(worker.health["reasons"])
    return all((address in named) == (n in away) for n, address in enumerate(addresses))


@pytest.mark.long
async def test_each_broker_that_leads_something_dies_and_costs_no_promise(
    cluster: Cluster, at_work: tuple[Bus, Worker]
) -> None:
    bus, worker = at_work
    servers, topic = cluster.bootstrap_servers, bus.topic(REQUESTS)
    killed = []
    for number, role in enumerate(("leader", "coordinator", "controller")):
        match role:
            case "leader":
                node = leader_of(servers, topic)
            case "coordinator":
                node = coordinator_of(servers, f"{bus.prefix}.worker")
            case _:
                node = await controller_of(servers)
        killed.append(node)
        ended = len(bus.ended_calls())
        cluster.kill(node - 1)
        await bus.publish(batch(role))
        await until(
            lambda ended=ended: len(bus.ended_calls()) >= ended + WORKFLOWS // 2,  # type: ignore[misc]
            f"it goes on without the {role}",
            LIMIT_S,
        )
        await asyncio.to_thread(cluster.start)
        await bus.terminals((number + 2) * WORKFLOWS, LIMIT_S)
    await until(lambda: bool(worker.health["ready"]), "the worker is ready", LIMIT_S)

    assert set(killed) <= {1, 2, 3}
    await is_right(bus, worker, batches=4)


@pytest.mark.long
async def test_two_of_three_away_for_a_minute_are_named_and_cost_no_promise(
    cluster: Cluster, at_work: tuple[Bus, Worker]
) -> None:
    bus, worker = at_work
    await bus.publish(batch("before"))
    began = time.monotonic()
    for number in (0, 1):
        cluster.kill(number)
    await until(lambda: says_which(worker, cluster, (0, 1)), "it names them", LIMIT_S)
    await until(lambda: time.monotonic() - began > AWAY_S, "a minute has passed", 2 * AWAY_S)
    assert not worker.health["ready"]
    assert json.loads(worker.get("/live"))
    await asyncio.to_thread(cluster.start)
    await bus.publish(batch("after"))
    await is_right(bus, worker, batches=3)
    await until(lambda: bool(worker.health["ready"]), "the worker is ready", LIMIT_S)
    assert worker.health["reasons"] == []
    assert await asyncio.to_thread(worker.terminate) == 0
