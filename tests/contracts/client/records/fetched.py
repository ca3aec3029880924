"""What was fetched of a partition, read as the consumer reads it."""

from collections.abc import Sequence

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED

from answerbus.client.records.batch import Record
from answerbus.client.records.partition import PartitionRecords
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unreadable import Unreadable

PLACE = TopicPartition("requests", 3)


class Unlimited(PollTimeBudget):
    """On a busy machine any batch may take long."""

    @property
    def is_spent(self) -> bool:
        return False


def reading(
    data: bytes,
    offset: int = 0,
    aborted: Sequence[tuple[int, int]] = (),
    allowance: PollTimeBudget | None = None,
) -> PartitionRecords:
    """As after a fetch from `offset`."""
    allowance = allowance or Unlimited()
    return PartitionRecords(PLACE, data, offset, aborted, READ_COMMITTED, allowance, lambda _: None)


def read(data: bytes, offset: int = 0) -> list[Record]:
    return list(reading(data, offset))


def stretch_of(record: Record) -> range:
    """The offsets that a record stands for."""
    end = record.end if isinstance(record, Unreadable) else record.offset + 1
    return range(record.offset, end)
