"""A request of a transaction that arrives late, its answer unseen, changes no later transaction."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.errors import ProducerFenced

from answerbus.client.bounded import bounded
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.transactional_producer import TransactionalProducer
from tests.integration.kafka_admin import kafka_admin
from tests.storms.proxied import LISTENER, ProxiedCluster, Proxies, proxies
from tests.storms.proxy import PASS, Api, Kind, Treatment

pytestmark = pytest.mark.kafka

GROUP = "late.group"
LIMIT_S = 20.0
RETRY_BACKOFF_MS = 20
OF_TRANSACTIONS = [api for api in Api if api is not Api.INIT_PRODUCER_ID]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedCluster]:
    with ProxiedCluster(tmp_path_factory.mktemp("late"), 1) as cluster:
        yield cluster


@pytest.fixture
async def way_in(cluster: ProxiedCluster) -> AsyncIterator[Proxies]:
    async with proxies(cluster, cluster.proxy_ports, LISTENER) as found:
        yield found


@pytest.mark.parametrize("api", OF_TRANSACTIONS, ids=lambda api: api.name)
@pytest.mark.parametrize("kind", [Kind.HOLD, Kind.AGAIN], ids=lambda kind: kind.name)
async def test_a_late_request_changes_no_later_transaction(
    cluster: ProxiedCluster, way_in: Proxies, api: Api, kind: Kind
) -> None:
    topic = await a_topic(cluster, f"late-{api.name.lower()}-{kind.name.lower()}")
    async with a_producer(way_in, topic.topic) as producer:
        treat_first(way_in, api, Treatment(kind, after_s=None))
        await written(producer, topic, b"A", offset=1)
        await producer.begin_transaction()
        await bounded(producer.send_and_wait(topic.topic, b"B"), LIMIT_S)
        (proxy,) = way_in.each
        assert proxy.seen[api, kind] == 1

        proxy.release()
        await bounded(proxy.late_answers.acquire(), LIMIT_S)

        assert await visible(cluster, topic) == [b"A"]
        await bounded(producer.send_and_wait(topic.topic, b"C"), LIMIT_S)
        await bounded(producer.commit_transaction(), LIMIT_S)
    assert await visible(cluster, topic, 3) == [b"A", b"B", b"C"]


@pytest.mark.parametrize("api", OF_TRANSACTIONS, ids=lambda api: api.name)
async def test_a_late_request_that_arrives_between_two_transactions_keeps_neither_from_its_end(
    cluster: ProxiedCluster, way_in: Proxies, api: Api
) -> None:
    topic = await a_topic(cluster, f"between-{api.name.lower()}")
    async with a_producer(way_in, topic.topic) as producer:
        treat_first(way_in, api, Treatment(Kind.HOLD, after_s=None))
        await written(producer, topic, b"A", offset=1)
        (proxy,) = way_in.each
        proxy.release()
        await bounded(proxy.late_answers.acquire(), LIMIT_S)

        await written(producer, topic, b"B", offset=2)
    assert await visible(cluster, topic, 2) == [b"A", b"B"]


async def test_a_producer_with_a_successor_is_granted_no_new_epoch(
    cluster: ProxiedCluster, way_in: Proxies
) -> None:
    topic = await a_topic(cluster, "succeeded")
    async with a_producer(way_in, topic.topic) as producer:
        treat_first(way_in, Api.END_TXN, Treatment(Kind.LOSE_ANSWER))
        await written(producer, topic, b"A", offset=1)
        async with a_producer(way_in, topic.topic) as successor:
            await written(successor, topic, b"B", offset=2)

            with pytest.raises(ProducerFenced):
                await bounded(producer.begin_transaction(), LIMIT_S)

            await written(successor, topic, b"C", offset=3)
    assert await visible(cluster, topic, 3) == [b"A", b"B", b"C"]


async def test_a_producer_with_a_successor_aborts_no_transaction_of_it(
    cluster: ProxiedCluster, way_in: Proxies
) -> None:
    topic = await a_topic(cluster, "succeeded-and-open")
    async with a_producer(way_in, topic.topic) as producer:
        treat_first(way_in, Api.END_TXN, Treatment(Kind.LOSE_ANSWER))
        await written(producer, topic, b"A", offset=1)
        async with a_producer(way_in, topic.topic) as successor:
            await successor.begin_transaction()
            await bounded(successor.send_and_wait(topic.topic, b"B"), LIMIT_S)

            with pytest.raises(ProducerFenced):
                await bounded(producer.begin_transaction(), LIMIT_S)

            await bounded(successor.send_and_wait(topic.topic, b"C"), LIMIT_S)
            await bounded(successor.commit_transaction(), LIMIT_S)
    assert await visible(cluster, topic, 3) == [b"A", b"B", b"C"]


async def test_an_epoch_is_asked_for_until_the_answer_is_seen(
    cluster: ProxiedCluster, way_in: Proxies
) -> None:
    topic = await a_topic(cluster, "asked-again")
    async with a_producer(way_in, topic.topic) as producer:
        treat_first(way_in, Api.END_TXN, Treatment(Kind.LOSE_ANSWER))
        await written(producer, topic, b"A", offset=1)
        treat_first(way_in, Api.INIT_PRODUCER_ID, Treatment(Kind.LOSE_ANSWER))

        await written(producer, topic, b"B", offset=2)
    assert await visible(cluster, topic, 2) == [b"A", b"B"]


def treat_first(way_in: Proxies, api: Api, treatment: Treatment) -> None:
    """The next request of the kind alone."""
    left = [treatment]
    way_in.set_rule(lambda asked: left.pop() if asked.api is api and left else PASS)


async def a_topic(cluster: ProxiedCluster, name: str) -> TopicPartition:
    async with kafka_admin(cluster.bootstrap_servers) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
    return TopicPartition(name, 0)


@asynccontextmanager
async def a_producer(way_in: Proxies, id_: str) -> AsyncIterator[TransactionalProducer]:
    producer = TransactionalProducer(
        bootstrap_servers=way_in.servers,
        transactional_id=id_,
        retry_backoff_ms=RETRY_BACKOFF_MS,
    )
    await bounded(producer.start(), LIMIT_S)
    try:
        yield producer
    finally:
        await bounded(producer.stop(), LIMIT_S)


async def written(
    producer: TransactionalProducer, topic: TopicPartition, value: bytes, offset: int
) -> None:
    """A transaction with all kinds of requests."""

    async def write() -> None:
        await producer.begin_transaction()
        await producer.send_and_wait(topic.topic, value)
        await producer.send_offsets_to_transaction({topic: offset}, GROUP)
        await producer.commit_transaction()

    await bounded(write(), LIMIT_S)


async def visible(cluster: ProxiedCluster, topic: TopicPartition, least: int = 0) -> list[bytes]:
    """What a reader of committed records sees; waits for `least`, as markers are written late."""
    consumer = RecordConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    await consumer.start()
    found: list[bytes] = []
    try:
        consumer.assign([topic])
        async with asyncio.timeout(LIMIT_S):
            while True:
                (end,) = (await consumer.end_offsets([topic])).values()
                consumer.seek(topic, 0)
                found.clear()
                while await consumer.position(topic) < end:
                    records = (await consumer.getmany(timeout_ms=100)).get(topic, ())
                    found.extend(record.value or b"" for record in records)
                if len(found) >= least:
                    return found
    finally:
        await consumer.stop()
