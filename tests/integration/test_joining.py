"""A group that cannot be joined and a partition that nobody leads: told as what they are."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka.admin import NewTopic

from answerbus.partition import partition_of
from answerbus.topics import REQUESTS, TOPICS
from infra.kafka import Broker, Cluster, start_broker
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request, until
from tests.integration.kafka_admin import kafka_admin

pytestmark = pytest.mark.kafka

LIMIT_S = 90.0
STUCK_AFTER_S = 4.0
LOOK_S = 0.5
EXIT_SET_UP = 3
TIMES = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 4_000}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker that is to keep three copies of groups' offsets: no group has a coordinator."""
    folder = tmp_path_factory.mktemp("alone")
    with start_broker(folder, 0, {"offsets.topic.replication.factor": "3"}) as broker:
        yield broker


@pytest.fixture
async def bus(alone: Broker, make_prefix: Callable[[], str], tmp_path: Path) -> Bus:
    bus = Bus(alone.bootstrap_servers, make_prefix(), 2, tmp_path, kafka=TIMES)
    await create_topics(bus)
    return bus


@pytest.fixture
def worker(bus: Bus) -> Iterator[Worker]:
    """A worker that waits to become a member."""
    config = bus.config([{"reply": ANSWERED}], worker={"stuck_after_s": STUCK_AFTER_S})
    try:
        yield bus.start_worker(config)
    finally:
        bus.stop_workers()


@pytest.mark.long
async def test_a_worker_that_cannot_join_is_unready_and_ends(worker: Worker) -> None:
    reasons: list[str] = []

    def names_the_cause() -> bool:
        reasons[:] = worker.health["reasons"]
        return "no coordinator (GroupCoordinatorNotAvailableError" in " ".join(reasons)

    await until(names_the_cause, "it is not ready", LIMIT_S)
    code = await asyncio.to_thread(worker.process.wait, LIMIT_S)

    assert reasons[0].startswith("has been no member of the consumer group for ")
    texts = [x for x in worker.log_file.read_text().splitlines() if not x.startswith("{")]
    assert (code, len(texts)) == (EXIT_SET_UP, 1), texts
    assert "has not become a member of the consumer group" in texts[0]
    assert "GroupCoordinatorNotAvailableError" in texts[0]


async def test_a_worker_that_waits_to_join_can_be_stopped(worker: Worker) -> None:
    await asyncio.sleep(1)  # it asks for a coordinator
    assert await asyncio.to_thread(worker.terminate) == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.long
async def test_a_partition_without_a_leader_is_named_and_the_others_go_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    bus = Bus(cluster.bootstrap_servers, "three", 3, tmp_path)
    async with kafka_admin(bus.bootstrap) as admin:
        once = {number: [number + 1] for number in range(3)}  # one copy, on one broker each
        await admin.create_topics(
            [NewTopic(bus.topic(REQUESTS), -1, -1, replica_assignments=once)], validate_only=False
        )
        rest = [
            NewTopic(bus.topic(topic), 3, 3, topic_configs=dict(topic.settings()))
            for topic in TOPICS
            if topic is not REQUESTS
        ]
        await admin.create_topics(rest)
    config = bus.config([{"reply": ANSWERED}], worker={"stuck_after_s": STUCK_AFTER_S})
    try:
        worker = bus.start_worker(config)
        await until(
            lambda: list(worker.health["lanes"].values()) == ["open"] * 3, "all are open", LIMIT_S
        )
        cluster.kill(2)
        await until(lambda: "2" in worker.health["stuck"], "it is stuck", LIMIT_S)
        others = [f"order-{n}" for n in range(9) if partition_of(f"order-{n}", 3) != 2]
        for _ in range(int(2 * STUCK_AFTER_S / LOOK_S)):
            health = worker.health
            assert not [why for why in health["reasons"] if "not answered" in why], health
            await asyncio.sleep(LOOK_S)
        assert set(health["stuck"]) == {"2"}, health
        assert "LEADER_NOT_AVAILABLE" in health["stuck"]["2"]
        await bus.publish([request(f"r-{n}", name) for n, name in enumerate(others)])
        await bus.terminals(len(others), LIMIT_S)
        await asyncio.to_thread(cluster.start)
        await until(lambda: bool(worker.health["ready"]), "it is ready again", LIMIT_S)
    finally:
        bus.stop_workers()
