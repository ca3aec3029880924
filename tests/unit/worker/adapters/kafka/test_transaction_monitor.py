"""When an open transaction that holds requests back is named, and how often its owner is asked."""

import asyncio
from collections.abc import Collection

from aiokafka import TopicPartition

from services.kafka.open_transactions import OpenTransaction
from services.worker.adapters.kafka.transaction_monitor import HELD_S, TransactionMonitor
from tests.unit.worker.lane.virtual import on_virtual_time

PLACE, LEADERLESS = TopicPartition("requests", 3), TopicPartition("requests", 5)
WHOSE = OpenTransaction(producer=4711, epoch=2, start=7, id="a-stranger")


class FakeConsumer:
    def __init__(self) -> None:
        self.stable, self.end = 7, 9

    def assignment(self) -> set[TopicPartition]:
        return {PLACE, LEADERLESS}

    def leader_of(self, place: TopicPartition) -> int | None:
        return 0 if place == PLACE else -1

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        assert [*places] == [PLACE]
        return {PLACE: self.stable}

    async def high_watermarks(self, _: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {PLACE: self.end}


class Owners:
    """Answers what it is told to, and counts how often it is asked."""

    def __init__(self, *answers: OpenTransaction | Exception | None) -> None:
        self.answers, self.asked = list(answers), 0

    async def ask(self, place: TopicPartition) -> OpenTransaction | None:
        assert place == PLACE
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@on_virtual_time
async def test_it_is_named_once_it_has_lasted_and_its_owner_is_asked_once() -> None:
    consumer, owners = FakeConsumer(), Owners(WHOSE)
    monitor = TransactionMonitor([lambda: consumer], owners.ask)
    await monitor.look()
    assert (monitor.problem_of(3), owners.asked) == (None, 0)
    await asyncio.sleep(HELD_S)
    consumer.end = 10
    await monitor.look()
    await monitor.look()

    text = monitor.problem_of(3)
    assert text
    assert text.startswith("an open transaction holds requests from offset 7 to 10 back")
    assert "transactional id a-stranger, producer id 4711, epoch 2, from offset 7" in text
    assert owners.asked == 1
    assert (monitor.problem_of(4), monitor.held_s(4)) == (None, 0.0)

    consumer.stable = 10
    await monitor.look()
    assert (monitor.problem_of(3), monitor.held_s(3)) == (None, 0.0)


@on_virtual_time
async def test_each_transaction_that_ends_in_time_counts_again() -> None:
    consumer, owners = FakeConsumer(), Owners()
    monitor = TransactionMonitor([lambda: consumer], owners.ask)
    for stable in range(7, 20):
        consumer.stable, consumer.end = stable, stable + 1
        await monitor.look()
        await asyncio.sleep(HELD_S * 0.9)

        assert monitor.problem_of(3) is None


@on_virtual_time
async def test_an_owner_that_cannot_be_named_hides_no_transaction() -> None:
    consumer, owners = FakeConsumer(), Owners(None, ConnectionError("away"))
    monitor = TransactionMonitor([lambda: consumer], owners.ask)
    await monitor.look()
    await asyncio.sleep(HELD_S)
    await monitor.look()
    assert "its producer is not known yet" in (monitor.problem_of(3) or "")
    await monitor.look()

    assert "its producer cannot be named: " in (monitor.problem_of(3) or "")


@on_virtual_time
async def test_while_kafka_does_not_answer_what_was_known_holds() -> None:
    consumer = FakeConsumer()
    reached: list[FakeConsumer] = [consumer]
    monitor = TransactionMonitor([lambda: reached[0]], Owners(WHOSE).ask)
    await monitor.look()
    await asyncio.sleep(HELD_S)
    reached.clear()
    await monitor.look()

    assert monitor.problem_of(3)


@on_virtual_time
async def test_each_consumer_is_looked_at_also_while_another_fails_or_is_not_there() -> None:
    consumer = FakeConsumer()

    def fails() -> FakeConsumer:
        raise ConnectionError

    consumers = [fails, lambda: None, lambda: consumer]
    monitor = TransactionMonitor(consumers, Owners(WHOSE).ask)
    await monitor.look()
    await asyncio.sleep(HELD_S)
    await monitor.look()

    assert "producer id 4711" in (monitor.problem_of(3) or "")
    assert monitor.held_s(3) >= HELD_S


def test_a_transaction_without_a_right_to_see_its_id_has_its_numbers() -> None:
    unseen = OpenTransaction(producer=1, epoch=0, start=5, id=None)

    assert str(unseen) == (
        "a transactional id we may not see, producer id 1, epoch 0, from offset 5"
    )
