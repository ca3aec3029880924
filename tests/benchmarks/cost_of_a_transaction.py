"""CPU of a transaction in a lane's client: `python -m tests.benchmarks.cost_of_a_transaction`."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiokafka.protocol.metadata import MetadataResponse_v1
from aiokafka.protocol.produce import ProduceResponse_v8
from aiokafka.protocol.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse_v0,
    EndTxnRequest,
    EndTxnResponse_v0,
    InitProducerIdRequest,
    InitProducerIdResponse_v0,
)

from answerbus.client.transactional_producer import TransactionalProducer

SPEND, OUTCOME = ("ledger",), ("results", "attempts", "ledger")  # topics that are written
PARTITIONS, PARTITION = 12, 3
VALUE, HEADERS = b"x" * 900, [("name", b"value")] * 4
ROUNDS, TIMES = 20, 50


def answered(request: Any) -> Any:
    """Of a broker that is in no trouble."""
    match request:
        case InitProducerIdRequest():
            return InitProducerIdResponse_v0(0, 0, 1, 0)
        case AddPartitionsToTxnRequest():
            added = [(topic, [(one, 0) for one in found]) for topic, found in request._topics]
            return AddPartitionsToTxnResponse_v0(0, added)
        case EndTxnRequest():
            return EndTxnResponse_v0(0, 0)
        case _:
            given = request._topics
            written = [(topic, [_written(one) for one, _ in found]) for topic, found in given]
            return ProduceResponse_v8(written, 0)


def _written(partition: int) -> tuple[Any, ...]:
    return partition, 0, 1, 1, 0, [], None


async def producer(asked: "Counter[str]", *, adds: bool) -> TransactionalProducer:
    """Its requests are answered at once; with `adds` off, partitions need not be added."""
    found = TransactionalProducer(
        bootstrap_servers="", transactional_id="lane", retry_backoff_ms=20
    )

    async def answer(_: Any, request: Any, **__: Any) -> Any:
        asked[type(request).__name__] += 1
        await asyncio.sleep(0)
        return answered(request)

    async def coordinator(*_: Any, **__: Any) -> int:
        return 0

    async def is_ready(*_: Any, **__: Any) -> bool:
        return True

    partitions = [(0, number, 0, [0], [0]) for number in range(PARTITIONS)]
    topics = [(0, name, False, partitions) for name in OUTCOME]
    found.client.cluster.update_metadata(MetadataResponse_v1([(0, "", 1, None)], 0, topics))
    found._ask = answer
    found.client.coordinator_lookup = coordinator
    found.client.ready = is_ready
    if not adds:
        manager = found._txn_manager
        manager.maybe_add_partition_to_txn = manager._txn_partitions.add
    await found._sender.start()
    return found


async def transaction(of: TransactionalProducer, topics: tuple[str, ...]) -> None:
    """As a lane makes one."""
    await of.begin_transaction()
    sent = []
    for topic in topics:
        batch = of.create_batch()
        batch.append(timestamp=1, key=b"key", value=VALUE, headers=HEADERS)
        sent.append(await of.send_batch(batch, topic, partition=PARTITION))
    await asyncio.gather(*sent)
    await of.commit_transaction()


async def cost_ms(work: Callable[[], Awaitable[object]]) -> float:
    """The least of some rounds, since others use this machine, too."""
    found = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(TIMES):
            await work()
        found.append((time.thread_time() - began) / TIMES * 1e3)
    return min(found)


async def _report() -> None:
    for topics in (SPEND, OUTCOME):
        for adds in (True, False):
            asked: Counter[str] = Counter()
            one = await producer(asked, adds=adds)
            cost = await cost_ms(partial(transaction, one, topics))
            each = {name: count / (ROUNDS * TIMES) for name, count in asked.items()}
            sys.stdout.write(f"{len(topics)} topics: {cost:.3f} ms, requests {each}\n")
            await one.stop()


def main() -> None:
    """With AddPartitionsToTxn and without, for each kind of transaction that a request needs."""
    asyncio.run(_report())


if __name__ == "__main__":
    main()
