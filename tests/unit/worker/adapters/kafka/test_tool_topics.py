"""A toolset is found to be unavailable by a failure at its own topic, and at no other one."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.structs import RecordMetadata

from answerbus.topics import RUNS, STEPS, Topic, tool_calls
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.core.run.tool_access import UnavailableToolsets
from services.worker.ports.kafka import OutRecord
from tests.simulation.producer import SimBatch
from tests.unit.worker.lane.virtual import VirtualClock, run

SILENT = None
TOO_LARGE = MessageSizeTooLargeError()
ORDERS, ECHO = tool_calls("orders"), tool_calls("echo")
Reply = BaseException | str | None  # an error, "ok", or nothing at all


@dataclass
class Producer:
    """Answers each record by its topic, and looks for topics likewise."""

    sends: Mapping[str, Reply] = field(default_factory=dict)
    looks: Mapping[str, Reply] = field(default_factory=dict)
    full: str | None = None  # a topic that takes no more
    begun: int = 0
    ended: int = 0

    async def partitions_for(self, topic: str) -> set[int]:
        reported = self.looks.get(topic, "ok")
        if reported is SILENT:
            await asyncio.get_running_loop().create_future()
        if isinstance(reported, BaseException):
            raise reported
        return {0}

    async def begin_transaction(self) -> None:
        self.begun += 1

    async def send(self, topic: str, **_: object) -> "asyncio.Future[RecordMetadata]":
        if topic == self.full:
            await asyncio.get_running_loop().create_future()
        found: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        reported = self.sends.get(topic, "ok")
        if isinstance(reported, BaseException):
            found.set_exception(reported)
        elif reported is not SILENT:
            found.set_result(RecordMetadata(topic, 0, None, 0, 1, 0, 0))
        return found

    def create_batch(self) -> SimBatch:
        return SimBatch()

    async def send_batch(
        self, batch: SimBatch, topic: str, **_: object
    ) -> "asyncio.Future[RecordMetadata]":
        return await self.send(topic)

    async def commit_transaction(self) -> None:
        self.ended += 1


def name(topic: Topic) -> str:
    return topic.full_name("acme")


def failing(producer: Producer, *topics: Topic) -> tuple[BaseException | None, set[str]]:
    """Why one commit failed, and the toolsets that are left alone after it."""
    found = UnavailableToolsets()

    async def main() -> BaseException | None:
        clock = VirtualClock()
        shard = KafkaShard(Names("acme", "group", 0, {}), clock, found)
        shard._producer = producer  # type: ignore[assignment]
        records = [OutRecord(topic, None, b"k", b"v", []) for topic in topics]
        away = None
        try:
            await shard.commit(records, None)
        except (KafkaError, TimeoutError) as error:
            away = error
        toolsets = ("orders", "echo")
        left_alone.update(
            toolset for toolset in toolsets if not found.is_available(toolset, clock.now())
        )
        return away

    left_alone: set[str] = set()
    return run(main()), left_alone


def test_a_transaction_without_a_fault_leaves_no_toolset_alone() -> None:
    producer = Producer()
    assert failing(producer, STEPS, ORDERS, RUNS, ECHO) == (None, set())
    assert (producer.begun, producer.ended) == (1, 1)


@pytest.mark.parametrize(
    "found", [SILENT, UnknownTopicOrPartitionError(), TopicAuthorizationFailedError("t")]
)
def test_a_topic_that_is_not_found_is_found_out_before_the_transaction(found: Reply) -> None:
    producer = Producer(looks={name(ORDERS): found})
    error, left_alone = failing(producer, STEPS, ORDERS, ECHO)

    assert (error is not None, left_alone, producer.begun) == (True, {"orders"}, 0)


@pytest.mark.parametrize("reply", [SILENT, TOO_LARGE])
def test_a_topic_that_takes_no_record_is_found_out_by_that(reply: Reply) -> None:
    producer = Producer(sends={name(ORDERS): reply})
    error, left_alone = failing(producer, STEPS, ORDERS, ECHO)

    assert (error is not None, left_alone, producer.ended) == (True, {"orders"}, 0)


def test_a_topic_that_has_no_room_for_a_record_is_found_out_too() -> None:
    producer = Producer(full=name(ORDERS))
    _, left_alone = failing(producer, STEPS, ECHO, ORDERS)
    assert left_alone == {"orders"}


@pytest.mark.parametrize("reply", [SILENT, ProducerFenced()])
@pytest.mark.parametrize("also", [{}, {name(ORDERS): SILENT}])
def test_what_fails_at_topics_of_ours_is_no_fault_of_a_toolset(
    reply: Reply, also: Mapping[str, Reply]
) -> None:
    producer = Producer(sends={name(STEPS): reply, **also})
    error, left_alone = failing(producer, STEPS, ORDERS)

    assert (error is not None, left_alone) == (True, set())


def test_a_right_that_is_missing_fails_all_records_and_names_the_topic() -> None:
    """As TransactionalProducer fails what it has not sent."""
    error = TopicAuthorizationFailedError({name(ORDERS)})
    topics: Sequence[Topic] = (STEPS, ORDERS, ECHO)
    _, left_alone = failing(Producer(sends={name(topic): error for topic in topics}), *topics)

    assert left_alone == {"orders"}
