"""The simulated Kafka does what aiokafka and a real broker do, also where that hurts."""

import asyncio
import random
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    ConcurrentTransactions,
    InvalidTimestampError,
    InvalidTxnState,
    ProducerFenced,
)

from tests.simulation.boundary import Boundary
from tests.simulation.cluster import Cluster, Fault
from tests.simulation.log import Log
from tests.simulation.process import Process, ProcessLoop, run_and_clean_up
from tests.simulation.producer import SimProducer, SimTransactionalProducer
from tests.simulation.timeline import Timeline
from tests.storms.proxy import PASS, Api, Kind, Treatment
from tests.unit.worker.builders import NOW

OF_TRANSACTIONS = [api for api in Api if api is not Api.INIT_PRODUCER_ID]
REQUESTS, RESULTS = "sim.requests.v1", "sim.results.v1"


def a_cluster() -> Cluster:
    timeline = Timeline()
    return Cluster(random.Random(1), timeline, Boundary(timeline, 1, 100))


async def a_producer(cluster: Cluster) -> SimProducer:
    producer = SimProducer(cluster=cluster, transactional_id="sim.lane.0")
    await producer.start()
    await producer.begin_transaction()
    return producer


def values(cluster: Cluster) -> list[bytes | None]:
    return [entry.value for entry in cluster.log(RESULTS, 0).read(0, 100)[0]]


def run(main: Coroutine[Any, Any, None], *processes: Process) -> None:
    assert run_and_clean_up(main, list(processes)) == []


def test_a_commit_succeeds_without_the_record_that_was_refused() -> None:
    async def main() -> None:
        cluster = a_cluster()
        producer = await a_producer(cluster)
        cluster.refusals.append(True)
        sent = await producer.send(RESULTS, b"refused")
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send(RESULTS, b"after it")
        await producer.commit_transaction()

        assert isinstance(sent.exception(), InvalidTimestampError)
        assert values(cluster) == []

    run(main())


def test_a_successor_ends_what_was_open_and_shuts_its_predecessor_out() -> None:
    async def main() -> None:
        cluster = a_cluster()
        before = await a_producer(cluster)
        await (await before.send(RESULTS, b"open"))
        after = await a_producer(cluster)
        await (await after.send(RESULTS, b"ours"))
        await after.send_offsets_to_transaction({TopicPartition(REQUESTS, 0): 7}, "group")
        assert (values(cluster), cluster.offsets) == ([], {}), "not before the commit"
        await after.commit_transaction()
        await asyncio.sleep(0.01)

        assert (values(cluster), cluster.offsets) == ([b"ours"], {0: 7})
        with pytest.raises(ProducerFenced):
            await before.commit_transaction()

    run(main())


def test_a_held_end_ends_the_next_transaction_of_its_epoch_half_way() -> None:
    async def main() -> None:
        cluster = a_cluster()
        producer = await a_producer(cluster)
        await (await producer.send(RESULTS, b"before"))
        treat_first(cluster, Api.END_TXN, Kind.AGAIN)
        await producer.commit_transaction()
        assert producer.unanswered

        refused = await half_of_a_transaction(producer)

        assert isinstance(refused.exception(), InvalidTxnState)
        assert values(cluster)[:2] == [b"before", b"half"]

    run(main())


@pytest.mark.parametrize("fault", Fault)
def test_no_answer_of_an_end_is_heard_where_its_connection_broke(fault: Fault) -> None:
    async def main() -> None:
        cluster = a_cluster()
        producer = await a_producer(cluster)
        await (await producer.send(RESULTS, b"before"))
        treat_first(cluster, Api.END_TXN, Kind.AGAIN)
        cluster.end_faults.append(fault)
        await producer.commit_transaction()
        assert producer.unanswered

    run(main())


@pytest.mark.parametrize("kind", [Kind.HOLD, Kind.AGAIN], ids=lambda kind: kind.name)
@pytest.mark.parametrize("api", OF_TRANSACTIONS, ids=lambda api: api.name)
def test_a_held_request_does_nothing_in_the_next_epoch(api: Api, kind: Kind) -> None:
    async def main() -> None:
        cluster = a_cluster()
        producer = SimTransactionalProducer(cluster=cluster, transactional_id="sim.lane.0")
        await producer.start()
        treat_first(cluster, api, kind)
        await producer.begin_transaction()
        await (await producer.send(RESULTS, b"before"))
        await producer.send_offsets_to_transaction({TopicPartition(REQUESTS, 0): 1}, "group")
        await producer.commit_transaction()
        assert producer.unanswered

        sent = await half_of_a_transaction(producer)

        assert (sent.exception(), values(cluster), cluster.offsets) == (None, [b"before"], {0: 1})
        await producer.send_offsets_to_transaction({TopicPartition(REQUESTS, 0): 2}, "group")
        await producer.commit_transaction()
        await asyncio.sleep(0.01)
        assert (values(cluster)[:2], cluster.offsets) == ([b"before", b"half"], {0: 2})

    run(main())


def test_a_late_start_shuts_out_the_producer_that_was_started_by_its_repetition() -> None:
    async def main() -> None:
        cluster = a_cluster()
        treat_first(cluster, Api.INIT_PRODUCER_ID, Kind.HOLD)
        producer = await a_producer(cluster)

        refused = await half_of_a_transaction(producer)

        assert isinstance(refused.exception(), ProducerFenced)
        assert values(cluster) == []

    run(main())


def test_whoever_asks_for_an_epoch_aborts_what_is_open_and_is_refused_then() -> None:
    async def main() -> None:
        cluster = a_cluster()
        await a_producer(cluster)
        after = await a_producer(cluster)
        await (await after.send(RESULTS, b"open"))

        with pytest.raises(ConcurrentTransactions):
            cluster.renew("sim.lane.0", 0)
        with pytest.raises(ProducerFenced):
            cluster.renew("sim.lane.0", 0)

        with pytest.raises(ProducerFenced):
            await after.commit_transaction()

    run(main())


def test_a_producer_of_the_product_with_a_successor_aborts_nothing_of_it() -> None:
    async def main() -> None:
        cluster = a_cluster()
        before = SimTransactionalProducer(cluster=cluster, transactional_id="sim.lane.0")
        await before.start()
        before.unanswered = True
        after = await a_producer(cluster)
        await (await after.send(RESULTS, b"ours"))

        with pytest.raises(ProducerFenced):
            await before.begin_transaction()

        await after.commit_transaction()
        await asyncio.sleep(0.01)
        assert values(cluster) == [b"ours"]

    run(main())


def treat_first(cluster: Cluster, api: Api, kind: Kind) -> None:
    """The next request of this sort alone."""
    left = [Treatment(kind)]
    cluster.rule = lambda asked: left.pop() if asked.api is api and left else PASS


async def half_of_a_transaction(producer: SimProducer) -> "asyncio.Future[Any]":
    """Records go on until what was held has had its chance; gives the last."""
    await producer.begin_transaction()
    await asyncio.wait([await producer.send(RESULTS, b"half")])
    for _ in range(20):
        await asyncio.sleep(0.01)
        sent = await producer.send(RESULTS, b"the other half")
        await asyncio.wait([sent])
    return sent


def test_what_is_undecided_holds_readers_back_and_markers_leave_gaps() -> None:
    async def main() -> None:
        cluster = a_cluster()
        producer = await a_producer(cluster)
        await (await producer.send(RESULTS, b"first"))
        cluster.produce(None, 0, [(RESULTS, 0, None, b"behind it", ())])
        assert values(cluster) == []
        await producer.commit_transaction()
        await asyncio.sleep(0.01)

        assert values(cluster) == [b"first", b"behind it"]
        assert cluster.log(RESULTS, 0).end == 3

    run(main())


def test_compaction_keeps_the_last_of_each_key() -> None:
    log = Log("t", 0)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)):
        log.append(NOW, key, value, ())
    log.compact(None)

    assert [(entry.offset, entry.value) for entry in log.read(0, 9)[0]] == [(2, b"3"), (3, None)]
    log.compact(NOW)
    assert [entry.offset for entry in log.read(0, 9)[0]] == [2, 3]
    log.compact(NOW + timedelta(seconds=1))
    assert [entry.offset for entry in log.read(0, 9)[0]] == [2]
    assert len(log.whole) == 4


def test_a_frozen_process_does_what_is_due_when_it_resumes_and_a_dead_one_nothing() -> None:
    frozen, dead = Process("frozen", 1), Process("dead", 2)
    done: list[str] = []

    async def work(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        done.append(name)

    async def main() -> None:
        for process in (frozen, dead):
            for seconds in (3.0, 1.0):
                process.spawn(work(f"{process.name} {seconds}", seconds))
        await asyncio.sleep(0.5)
        frozen.is_frozen, dead.is_dead = True, True
        await asyncio.sleep(10)
        assert done == []
        frozen.wake()
        await asyncio.sleep(1)
        assert done == ["frozen 1.0", "frozen 3.0"]

    run(main(), frozen, dead)


def test_a_timer_that_is_cancelled_while_its_process_sleeps_does_not_fire() -> None:
    process = Process("frozen", 1)
    fired: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        timer = loop.call_later(1.0, fired.append, "timer", context=process.context)
        process.is_frozen = True
        await asyncio.sleep(2)
        timer.cancel()
        process.wake()
        await asyncio.sleep(1)

    run(main(), process)
    assert fired == []
