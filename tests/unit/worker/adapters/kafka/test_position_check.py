"""One look at the partitions: what waits, what Kafka does not say, what was made again."""

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    KafkaTimeoutError,
)

from services.worker.adapters.kafka.position_check import TopicRecreated, check_positions
from services.worker.adapters.kafka.read_monitor import ReadMonitor, TopicMissing
from services.worker.lane.state.machine import State
from tests.unit.worker.adapters.kafka.polling import STUCK_S, Consumers, polls, works
from tests.unit.worker.builders import TOPIC
from tests.unit.worker.lane.virtual import on_virtual_time


class FakeConsumer:
    """Answers as the broker would."""

    def __init__(self, ends: dict[int, int], position: int = 0, *, topics: tuple[str, ...]) -> None:
        self._ends, self._position, self._topics = ends, position, topics

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(TOPIC, partition) for partition in self._ends}

    def leader_of(self, place: TopicPartition) -> int | None:
        return 0 if place.partition in self._ends else None

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(self._ends) if topic in self._topics else None

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not self._topics:
            raise KafkaTimeoutError
        return {place: self._ends[place.partition] for place in places}

    async def topics(self) -> set[str]:
        return set(self._topics)

    async def position(self, place: TopicPartition) -> int:
        return self._position


class Leaderless(FakeConsumer):
    """As aiokafka's: of a partition without a leader it asks again and again."""

    without: int | None = 1

    def leader_of(self, place: TopicPartition) -> int | None:
        return -1 if place.partition == self.without else super().leader_of(place)

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.without in {place.partition for place in places}:
            await asyncio.sleep(40)
            raise KafkaTimeoutError
        return await super().end_offsets(places)


class Growing(FakeConsumer):
    """Its partition grows with each question, and the lane reads on before it has the answer."""

    def __init__(self, lanes: dict[int, Any]) -> None:
        super().__init__({0: 9}, topics=(TOPIC,))
        self._lanes = lanes

    async def position(self, place: TopicPartition) -> int:
        self._ends[0] += 3
        self._lanes[0].lane.lane_state.watermark.position = self._ends[0]
        return self._ends[0]


class Silent(FakeConsumer):
    """Its broker is away."""

    async def topics(self) -> set[str]:
        raise KafkaTimeoutError


def lifecycle(position: int, state: State = State.OPEN, *, is_delivering: bool = True) -> Any:
    losses: list[BaseException] = []
    lane_state = SimpleNamespace(watermark=SimpleNamespace(position=position))
    backpressure = SimpleNamespace(is_delivering=is_delivering)
    lane = SimpleNamespace(
        state=state, backpressure=backpressure, leaving=False, lane_state=lane_state, losses=losses
    )
    lane.begin_again = losses.append
    return SimpleNamespace(lane=lane)


@on_virtual_time
async def test_an_outage_is_waited_for_and_no_fault_of_the_consumer() -> None:
    """Also one that ends now and then: the broker answers every other time it is asked."""
    reading = ReadMonitor()
    consumers = Consumers(reading)
    renewal = consumers.renewal()
    renewal.start()
    await polls(reading, works, 1)
    there, away = FakeConsumer({0: 9}, 3, topics=(TOPIC,)), Silent({0: 9}, topics=())
    texts: list[str | None] = []
    for _ in range(8):
        await check_positions(there, TOPIC, {0: lifecycle(3)}, reading)
        with pytest.raises(KafkaTimeoutError):
            await check_positions(away, TOPIC, {0: lifecycle(3)}, reading)
        await polls(reading, works, STUCK_S / 2)
        texts.append(reading.problem_of(0, STUCK_S))
    assert consumers.made_at == []
    await check_positions(there, TOPIC, {0: lifecycle(3)}, reading)
    assert reading.unread_s(0) > 3.5 * STUCK_S
    await polls(reading, works, STUCK_S + 3)
    await renewal.stop()

    assert texts[0] is None
    assert all(texts[2:]), "no look that failed lets the wait begin again"
    assert len(consumers.made_at) == 1, "now Kafka answers, and the consumer reads nothing"


@on_virtual_time
async def test_what_is_read_while_the_end_is_asked_for_is_no_topic_made_again() -> None:
    lanes = {0: lifecycle(9)}
    consumer, reading = Growing(lanes), ReadMonitor()

    for _ in range(5):
        await check_positions(consumer, TOPIC, lanes, reading)

    assert lanes[0].lane.losses == []
    assert not reading.from_beginning


@on_virtual_time
async def test_a_partition_without_a_leader_hides_no_other() -> None:
    reading = ReadMonitor()
    consumer = Leaderless({0: 9, 1: 9, 2: 9}, 4, topics=(TOPIC,))
    lifecycles = {number: lifecycle(4) for number in range(3)}
    took_s = []
    for _ in range(10):
        began = asyncio.get_running_loop().time()
        assert await check_positions(consumer, TOPIC, lifecycles, reading) == {0: 9, 2: 9}
        took_s.append(asyncio.get_running_loop().time() - began)
        await asyncio.sleep(2)

    assert set(reading.unread) == {0, 2}
    assert max(took_s) < 4
    reported = reading.problem_of(1, STUCK_S)
    assert reported is not None
    assert "where partition 1 of the requests topic ends" in reported
    assert "LEADER_NOT_AVAILABLE" in reported
    consumer.without = None
    assert await check_positions(consumer, TOPIC, lifecycles, reading) == {0: 9, 1: 9, 2: 9}
    assert set(reading.unread) == {0, 1, 2}
    assert reading.problem_of(1, STUCK_S) is None


@on_virtual_time
async def test_a_worker_whose_only_partition_has_no_leader_reports_it() -> None:
    reading = ReadMonitor()
    consumer = Leaderless({1: 9}, 4, topics=(TOPIC,))
    for _ in range(10):
        assert await check_positions(consumer, TOPIC, {1: lifecycle(4)}, reading) == {}
        await asyncio.sleep(2)

    assert "LEADER_NOT_AVAILABLE" in (reading.problem_of(1, STUCK_S) or "")


@on_virtual_time
async def test_a_lane_that_is_full_or_not_open_has_nothing_unread() -> None:
    reading = ReadMonitor()
    consumer = FakeConsumer({0: 9, 1: 9, 2: 9}, 4, topics=(TOPIC,))
    lifecycles = {
        0: lifecycle(4),
        1: lifecycle(4, is_delivering=False),
        2: lifecycle(4, State.OPENING),
    }

    assert await check_positions(consumer, TOPIC, lifecycles, reading) == {0: 9, 1: 9, 2: 9}
    assert set(reading.unread) == {0}


@on_virtual_time
async def test_a_topic_that_is_missing_is_reported() -> None:
    with pytest.raises(TopicMissing, match=f"the topic {TOPIC} is missing"):
        await check_positions(FakeConsumer({}, topics=()), TOPIC, {}, ReadMonitor())


@on_virtual_time
async def test_a_lane_beyond_the_end_of_its_partition_starts_over_from_the_beginning() -> None:
    """Once is not enough: a new leader may for a moment know of less."""
    reading = ReadMonitor()
    consumer = FakeConsumer({0: 2, 1: 9}, 2, topics=(TOPIC,))
    lifecycles = {0: lifecycle(7), 1: lifecycle(7)}
    await check_positions(consumer, TOPIC, lifecycles, reading)
    assert lifecycles[0].lane.losses == []
    await check_positions(consumer, TOPIC, lifecycles, reading)

    assert reading.from_beginning == {0}
    assert [type(error) for error in lifecycles[0].lane.losses] == [TopicRecreated]
    assert lifecycles[1].lane.losses == []

    await check_positions(consumer, TOPIC, {0: lifecycle(2)}, reading)  # reopened
    assert reading.from_beginning == set()
