"""Three brokers, one of which dies and comes back while 200 requests are answered."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.kafka import Cluster
from tests.chaos.audit.reading import read_history
from tests.chaos.auditor import audit
from tests.integration.bus import ANSWERED, Bus, create_topics, request, until

pytestmark = pytest.mark.kafka

REQUESTS = 200
WORKFLOWS = 40
PARTITIONS = 4
LIMIT_S = 90.0
LATENCY = {"median_s": 0.3, "sigma": 0.5, "max_s": 1.0}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


async def test_no_promise_is_broken_when_one_of_three_brokers_dies_and_returns(
    cluster: Cluster, tmp_path: Path
) -> None:
    bus = Bus(cluster.bootstrap_servers, "three", PARTITIONS, tmp_path)
    await create_topics(bus, cluster.size)
    config = bus.config([{"reply": ANSWERED, "latency_s": LATENCY}], worker={"max_in_flight": 16})
    bodies = [
        request(f"r-{n}", f"order-{n % WORKFLOWS}", budget={"attempts": 20})
        for n in range(REQUESTS)
    ]
    try:
        worker = bus.start_worker(config)
        await bus.publish(bodies)
        await until(lambda: len(bus.ended_calls()) >= REQUESTS // 5, "some calls have ended")
        cluster.kill(0)
        ended = len(bus.ended_calls())
        await until(
            lambda: len(bus.ended_calls()) >= ended + REQUESTS // 5, "it goes on with two", LIMIT_S
        )
        await asyncio.to_thread(cluster.start)
        found = await bus.terminals(REQUESTS, LIMIT_S)
        await until(lambda: bool(worker.health["ready"]), "the worker is ready", LIMIT_S)
        assert worker.terminate() == 0
    finally:
        bus.stop_workers()

    assert {event["request_id"] for event in found} == {body["request_id"] for body in bodies}
    history = await asyncio.to_thread(
        read_history, cluster.bootstrap_servers, bus.prefix, bus.journal
    )
    assert list(map(str, audit(history))) == []
