"""The ends of partitions with what open transactions hide: each leader is asked once for all."""

from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import LeaderNotAvailableError, NotLeaderForPartitionError
from aiokafka.protocol.offset import OffsetRequest, OffsetRequest_v1

from answerbus.client.records.consumer import RecordConsumer
from tests.unit.worker.lane.virtual import run

ENDS = {TopicPartition(topic, n): 100 * n + len(topic) for topic in ("a", "bb") for n in range(4)}
LEADERS = {place: place.partition % 2 for place in ENDS}
NO_ERROR, NOT_LEADER = 0, NotLeaderForPartitionError.errno


class Brokers:
    """Two of them; `code` is what they say of each partition, until an update of the metadata."""

    def __init__(
        self, leaders: Mapping[TopicPartition, int], code: int = NO_ERROR, until: int = 1_000
    ) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=leaders.get)
        self.asked: list[int] = []
        self._leaders, self._code, self._updates_left = leaders, code, until

    async def force_metadata_update(self) -> None:
        self._updates_left -= 1
        self._code = self._code if self._updates_left else NO_ERROR

    async def send(self, node: int, request: OffsetRequest) -> Any:
        self.asked.append(node)
        topics = request.build(OffsetRequest_v1).topics
        named = [TopicPartition(topic, n) for topic, asked in topics for n, _ in asked]
        assert {self._leaders[place] for place in named} == {node}
        answered = [
            (topic, [(n, self._code, -1, ENDS[TopicPartition(topic, n)]) for n, _ in asked])
            for topic, asked in topics
        ]
        return SimpleNamespace(topics=answered)


def asking(brokers: Brokers, ask: Callable[[RecordConsumer], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        consumer = RecordConsumer()
        await consumer._client.close()
        consumer._client = brokers
        consumer._closed = True  # it was never started
        return await ask(consumer)

    return run(main())


def ends(consumer: RecordConsumer) -> Awaitable[Mapping[TopicPartition, int]]:
    return consumer.high_watermarks(list(ENDS))


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    brokers = Brokers(LEADERS)

    assert asking(brokers, ends) == ENDS
    assert sorted(brokers.asked) == [0, 1]


def test_a_partition_without_leader_is_not_guessed_at() -> None:
    with pytest.raises(LeaderNotAvailableError):
        asking(Brokers({**LEADERS, TopicPartition("bb", 3): -1}), ends)


def test_the_error_of_a_partition_is_raised() -> None:
    with pytest.raises(NotLeaderForPartitionError):
        asking(Brokers(LEADERS, NOT_LEADER), ends)


def test_a_leader_that_has_just_changed_is_looked_for() -> None:
    """A lane that opens asks a reader whose metadata may be older."""
    assert asking(Brokers(LEADERS, NOT_LEADER, until=2), ends) == ENDS
