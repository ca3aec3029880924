"""The requests of a transaction, as a broker in memory sees them."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.errors import (
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    ProducerClosed,
    ProducerFenced,
    TopicAuthorizationFailedError,
)
from aiokafka.protocol.metadata import MetadataResponse_v1
from aiokafka.protocol.produce import ProduceRequest, ProduceResponse_v8
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse_v0,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse_v0,
    EndTxnRequest,
    EndTxnResponse_v0,
    InitProducerIdRequest,
    InitProducerIdResponse_v0,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse_v0,
)
from aiokafka.structs import RecordMetadata, TopicPartition

from answerbus.client.transactional_producer import NextEpochRequest, TransactionalProducer

pytestmark = pytest.mark.services

COORDINATOR, NODES = 0, (0, 1)
TOPICS = ("even", "odd")  # the leader of the partitions of each is one of the nodes
LIMIT_S = 20.0
ABORT, COMMIT = 0, 1
ADD, WRITE, END = AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest


class Brokers:
    """Answers as two brokers do; `faults` are the next answers to a kind of request."""

    def __init__(self) -> None:
        self.asked: list[tuple[type[Any], int]] = []
        self.ends: list[int] = []
        self.faults: dict[type[Any], list[Any]] = {}
        self.waiting = self.most_waiting = 0
        self.silent = asyncio.Event()
        self.throttle_ms = 0

    async def send(self, node: int, request: Any, **_: Any) -> Any:
        kind = type(request)
        self.asked.append((kind, node))
        self.waiting += 1
        self.most_waiting = max(self.waiting, self.most_waiting)
        await asyncio.sleep(0)
        self.waiting -= 1
        fault = self.faults[kind].pop(0) if self.faults.get(kind) else 0
        if fault is asyncio.Event:
            self.silent.set()
            await asyncio.Event().wait()
        if isinstance(fault, Exception):
            raise fault
        return self._answer(request, fault)

    def _answer(self, request: Any, code: int) -> Any:
        match request:
            case InitProducerIdRequest():
                return InitProducerIdResponse_v0(0, 0, 1, 0)
            case NextEpochRequest():
                return InitProducerIdResponse_v0(0, 0, 1, 1)
            case AddPartitionsToTxnRequest():
                added = [
                    (topic, [(one, code) for one in those]) for topic, those in request._topics
                ]
                return AddPartitionsToTxnResponse_v0(0, added)
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse_v0(0, code)
            case TxnOffsetCommitRequest():
                return TxnOffsetCommitResponse_v0(0, [("requests", [(0, code)])])
            case EndTxnRequest():
                self.ends.append(request._transaction_result)
                return EndTxnResponse_v0(0, code)
            case _:
                topics: list[Any] = [
                    (topic, [(one, code, 7, 1, 0, [], None) for one, _ in those])
                    for topic, those in request._topics
                ]
                return ProduceResponse_v8(topics, self.throttle_ms)

    @property
    def kinds(self) -> list[type[Any]]:
        return [kind for kind, _ in self.asked]


@asynccontextmanager
async def producing(brokers: Brokers) -> AsyncIterator[TransactionalProducer]:
    producer = TransactionalProducer(
        bootstrap_servers="", transactional_id="lane", retry_backoff_ms=1
    )

    async def coordinator(*_: Any, **__: Any) -> int:
        return COORDINATOR

    async def is_ready(*_: Any, **__: Any) -> bool:
        return True

    def updated() -> "asyncio.Future[bool]":
        producer.client.cluster.update_metadata(MetadataResponse_v1(nodes, 0, topics))
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        done.set_result(True)
        return done

    topics = [(0, name, False, [(0, 0, node, [0], [0])]) for node, name in enumerate(TOPICS)]
    nodes = [(node, "", 1, None) for node in NODES]
    producer.client.cluster.update_metadata(MetadataResponse_v1(nodes, 0, topics))
    producer._ask = brokers.send
    producer.client.coordinator_lookup = coordinator
    producer.client.ready = is_ready
    producer.client.force_metadata_update = updated
    await producer._sender.start()
    brokers.asked.clear()
    async with asyncio.timeout(LIMIT_S):
        try:
            yield producer
        finally:
            await producer.stop()


async def batch_sent(
    producer: TransactionalProducer, topic: str
) -> "asyncio.Future[RecordMetadata]":
    batch = producer.create_batch()
    batch.append(timestamp=1, key=b"key", value=b"value")
    sent: asyncio.Future[RecordMetadata] = await producer.send_batch(batch, topic, partition=0)
    return sent


async def written(producer: TransactionalProducer, *topics: str) -> list[RecordMetadata]:
    """A transaction with a batch for each topic."""
    await producer.begin_transaction()
    sent = [await batch_sent(producer, topic) for topic in topics]
    found: list[RecordMetadata] = await asyncio.gather(*sent)
    await producer.commit_transaction()
    return found


async def test_a_transaction_is_three_requests() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        (one,) = await written(producer, "even")
        await written(producer, "even")

    assert one.offset == 7
    assert brokers.kinds == [ADD, WRITE, END] * 2
    assert brokers.ends == [COMMIT, COMMIT]


@pytest.mark.parametrize(("throttle_ms", "lines"), [(999, 0), (12_000, 1)])
async def test_a_quota_that_holds_it_back_is_in_the_log(
    throttle_ms: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers()
    brokers.throttle_ms = throttle_ms
    async with producing(brokers) as producer:
        await written(producer, "even")

    found = [line for line in caplog.messages if "nothing more of this producer for 12 s" in line]
    assert len(found) == lines


@pytest.mark.parametrize("kind", [ADD, END])
async def test_the_epoch_ends_with_the_transaction_in_which_its_coordinator_moved(
    kind: type[Any],
) -> None:
    brokers = Brokers()
    brokers.faults[kind] = [NotCoordinatorError.errno]
    async with producing(brokers) as producer:
        for _ in range(3):
            await written(producer, "even")

    moved = [one for asked in (ADD, WRITE, END) for one in [asked] * (1 + (asked is kind))]
    assert brokers.kinds == [*moved, END, NextEpochRequest, *[ADD, WRITE, END] * 2]
    assert brokers.ends.count(ABORT) == 1, "what a late request may have begun"


async def test_several_leaders_are_written_to_at_once() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        await written(producer, *TOPICS)

    assert brokers.asked == [(ADD, 0), (WRITE, 0), (WRITE, 1), (END, 0)]
    assert brokers.most_waiting == 2


async def test_offsets_are_added_before_they_are_committed() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition("requests", 0): 3}, "group")
        await producer.commit_transaction()

    assert brokers.kinds == [AddOffsetsToTxnRequest, TxnOffsetCommitRequest, END]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (ADD, KafkaConnectionError("closed")),
        (ADD, 51),  # the transaction before is being ended
        (WRITE, KafkaConnectionError("closed")),
        (WRITE, NotLeaderForPartitionError.errno),
        (END, KafkaConnectionError("closed")),
        (END, 14),  # the coordinator is loading
    ],
    ids=str,
)
async def test_what_may_pass_is_asked_again_before_anything_else(
    kind: type[Any], fault: Any
) -> None:
    brokers = Brokers()
    brokers.faults[kind] = [fault, fault]
    async with producing(brokers) as producer:
        await written(producer, "even")

    wanted = [one for one in (ADD, WRITE, END) for _ in range(3 if one is kind else 1)]
    assert brokers.kinds == wanted


@pytest.mark.parametrize(
    ("kind", "code", "error"),
    [
        (ADD, InvalidProducerEpoch.errno, ProducerFenced),
        (ADD, TopicAuthorizationFailedError.errno, TopicAuthorizationFailedError),
        (WRITE, MessageSizeTooLargeError.errno, MessageSizeTooLargeError),
        (END, InvalidProducerEpoch.errno, ProducerFenced),
    ],
)
async def test_what_does_not_pass_is_an_error_of_the_transaction(
    kind: type[Any], code: int, error: type[Exception]
) -> None:
    brokers = Brokers()
    brokers.faults[kind] = [code]
    async with producing(brokers) as producer:
        with pytest.raises(error):
            await written(producer, "even")

    assert brokers.kinds[-1] is kind


async def test_what_is_sent_once_a_transaction_has_failed_says_why_it_has() -> None:
    brokers = Brokers()
    brokers.faults[ADD] = [TopicAuthorizationFailedError.errno]
    async with producing(brokers) as producer:
        await producer.begin_transaction()
        with pytest.raises(TopicAuthorizationFailedError):
            await (await batch_sent(producer, "even"))
        with pytest.raises(TopicAuthorizationFailedError):
            await batch_sent(producer, "odd")
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send("odd", b"late", partition=0)


async def test_what_is_sent_outside_of_a_transaction_is_an_error_without_a_cause() -> None:
    async with producing(Brokers()) as producer:
        with pytest.raises(IllegalOperation) as raised:
            await producer.send("odd", b"early", partition=0)

    assert raised.value.__cause__ is None


async def test_a_commit_writes_what_was_sent_before_it_ends() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        await producer.begin_transaction()
        sent = [await batch_sent(producer, topic) for topic in TOPICS]
        await producer.commit_transaction()

        assert all(one.done() for one in sent)
    assert brokers.kinds == [ADD, WRITE, WRITE, END]


async def test_a_batch_wakes_a_sender_that_has_nothing_to_do() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        await producer.begin_transaction()
        for _ in range(3):
            await (await batch_sent(producer, "even"))
        await producer.commit_transaction()

    assert brokers.kinds == [ADD, WRITE, WRITE, WRITE, END]


async def test_what_may_be_written_is_written_while_a_partition_is_not_added() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        await producer.begin_transaction()
        await (await batch_sent(producer, "even"))
        brokers.faults[ADD] = [3] * 1_000  # an unknown topic, again and again
        refused = await batch_sent(producer, "odd")
        await asyncio.sleep(0)
        await (await batch_sent(producer, "even"))

        assert not refused.done()
        brokers.faults.clear()
        await producer.commit_transaction()
    assert brokers.ends == [COMMIT]


async def test_a_leader_that_is_not_known_is_asked_for() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        producer.client.cluster._partitions["even"][0] = producer.client.cluster._partitions[
            "even"
        ][0]._replace(leader=-1)
        await written(producer, "even")

    assert brokers.kinds == [ADD, WRITE, END]


async def test_an_abort_takes_back_what_was_written() -> None:
    brokers = Brokers()
    async with producing(brokers) as producer:
        await producer.begin_transaction()
        await (await batch_sent(producer, "even"))
        await producer.abort_transaction()
        await written(producer, "even")

    assert brokers.ends == [ABORT, COMMIT]


async def test_a_transaction_that_has_failed_says_why_and_is_aborted() -> None:
    brokers = Brokers()
    brokers.faults[ADD] = [TopicAuthorizationFailedError.errno]
    async with producing(brokers) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            async with producer.transaction():
                await (await batch_sent(producer, "even"))

    assert brokers.kinds == [ADD]  # no partition was added: there is nothing to abort


async def test_an_error_that_is_not_of_kafka_is_one_for_those_who_wait() -> None:
    brokers = Brokers()
    brokers.faults[ADD] = [ValueError("a fault of the client")]
    async with producing(brokers) as producer:
        with pytest.raises(KafkaError, match="a fault of the client"):
            await written(producer, "even")


async def test_no_batch_lingers() -> None:
    with pytest.raises(ValueError, match="linger_ms"):
        TransactionalProducer(bootstrap_servers="", transactional_id="lane", linger_ms=5)


async def test_a_producer_stops_though_the_end_of_its_transaction_is_not_answered() -> None:
    brokers = Brokers()
    brokers.faults[END] = [asyncio.Event]
    async with producing(brokers) as producer:
        writing = asyncio.create_task(written(producer, "even"))
        await brokers.silent.wait()

        await producer.stop()
        with pytest.raises(ProducerClosed):
            await writing

    assert brokers.kinds[-1] is END


async def test_a_stop_waits_for_no_broker() -> None:
    """What is not committed is lost with its transaction."""
    brokers = Brokers()
    async with producing(brokers) as producer:
        brokers.faults[WRITE] = [asyncio.Event]
        await producer.begin_transaction()
        written = await batch_sent(producer, "even")
        await brokers.silent.wait()
        waiting = await batch_sent(producer, "odd")

    for sent in (written, waiting):
        with pytest.raises(ProducerClosed):
            await sent


async def test_a_batch_that_was_to_be_sent_again_is_no_error_in_the_log() -> None:
    reports: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, it: reports.append(it["message"]))
    brokers = Brokers()
    async with producing(brokers) as producer:
        brokers.faults[WRITE] = [NotLeaderForPartitionError.errno]
        producer.client._maybe_wait_metadata = asyncio.Event().wait  # they do not come
        await producer.begin_transaction()
        sent = await batch_sent(producer, "even")
        while WRITE not in brokers.kinds or not producer._message_accumulator._batches:
            await asyncio.sleep(0)

    with pytest.raises(ProducerClosed):
        await sent
    await asyncio.sleep(0)
    assert not reports


@pytest.mark.parametrize("code", [asyncio.Event, TopicAuthorizationFailedError.errno])
async def test_batches_that_were_never_sent_are_no_errors_in_the_log(code: Any) -> None:
    reports: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, it: reports.append(it["message"]))
    brokers = Brokers()
    async with producing(brokers) as producer:
        brokers.faults[ADD] = [code]
        await producer.begin_transaction()
        sent = await batch_sent(producer, "even")
        while ADD not in brokers.kinds:
            await asyncio.sleep(0)
        if code is not asyncio.Event:
            await asyncio.wait([sent])

    assert isinstance(sent.exception(), ProducerClosed | TopicAuthorizationFailedError)
    del producer, sent
    gc.collect()
    assert not reports
