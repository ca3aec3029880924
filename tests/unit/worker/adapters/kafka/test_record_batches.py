"""Records of a transaction go out in batches, in the order of their partition, and none is lost."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from answerbus.client.diagnosis import describe_error_for_log
from answerbus.topics import LEDGER, RESULTS, Topic
from services.worker.adapters.kafka.shard import PartitionMissing, RecordRefused, send_batches
from services.worker.lane.outbox import lost_because
from services.worker.ports.kafka import OutRecord

BATCH_BYTES = 1_000
PARTITIONS = 3
Sent = list[tuple[tuple[str, int], bytes]]
Records = defaultdict[tuple[str, int | None], list[object]]


@dataclass
class Producer:
    """Takes batches of aiokafka's own kind."""

    sent: Sent = field(default_factory=list)

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(BATCH_BYTES, 0, is_transactional=1)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> "asyncio.Future[int]":
        assert batch.record_count()
        assert partition < PARTITIONS, "Unrecognized partition"  # as aiokafka does
        self.sent.append(((topic, partition), bytes(batch._build())))
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        found.set_result(len(self.sent))
        return found


def name(topic: Topic) -> str:
    return topic.full_name("acme")


def record(topic: Topic, partition: int, size: int, number: int) -> OutRecord:
    return OutRecord(topic, partition, f"k{number}".encode(), b"v" * size, [("n", b"h")])


places = st.tuples(
    st.sampled_from((LEDGER, RESULTS)), st.integers(0, 2), st.sampled_from((0, 10, 400, 5_000))
)


@given(st.lists(places, max_size=30))
def test_each_record_is_in_one_batch_of_its_partition_in_order(
    drawn: list[tuple[Topic, int, int]],
) -> None:
    records = [record(*place, number) for number, place in enumerate(drawn)]
    producer = Producer()
    acknowledged = asyncio.run(send_batches(producer, records, name, 1_000))  # type: ignore[arg-type]

    wanted: Records = defaultdict(list)
    found: Records = defaultdict(list)
    for one in records:
        wanted[name(one.topic), one.partition].append((one.key, one.value, one.headers))
    for place, batch in producer.sent:
        found[place] += [(it.key, it.value, list(it.headers)) for it in DefaultRecordBatch(batch)]
    assert found == wanted
    assert len(acknowledged) == len(producer.sent)


def test_records_of_one_partition_share_a_batch() -> None:
    producer = Producer()
    records = [record(LEDGER, 0, 10, number) for number in range(5)]
    asyncio.run(send_batches(producer, records, name, 1_000))  # type: ignore[arg-type]

    assert len(producer.sent) == 1


def test_a_partition_that_is_missing_is_named_with_the_remedy() -> None:
    records = [record(RESULTS, PARTITIONS, 10, 0)]
    with pytest.raises(PartitionMissing) as raised:
        asyncio.run(send_batches(Producer(), records, name, 1_000))  # type: ignore[arg-type]

    said = describe_error_for_log(raised.value)
    assert f"{name(RESULTS)} has no partition {PARTITIONS}: `answerbus topics apply`" in said


def test_a_refused_record_is_named_without_the_number_of_an_error() -> None:
    """`[Error 10] RecordRefused: ` stood before it at /ready and in the log."""
    large = record(LEDGER, 0, 10, 0)
    what = f"a record of {large.size_bytes} bytes is larger than the topic ledger takes"
    assert lost_because(RecordRefused(large)).startswith(f"{what}: `answerbus doctor` ")
