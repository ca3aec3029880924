"""Whether requests are read: what a consumer says, what waits, and when it is replaced."""

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    ConsumerStoppedError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderForPartitionError,
    ProducerFenced,
    TopicAuthorizationFailedError,
)

from answerbus.client.diagnosis import describe_error
from services.worker.adapters.kafka.consumer_renewal import AGAIN_MAX_S, LOOK_EVERY_S
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.core.read_latency import PartitionPosition
from services.worker.ports.lane import LaneLost
from tests.unit.worker.adapters.kafka.polling import (
    SESSION_S,
    STUCK_S,
    Consumers,
    fails,
    polls,
    works,
)
from tests.unit.worker.lane.virtual import on_virtual_time


@on_virtual_time
async def test_an_error_lasts_until_a_poll_goes_well() -> None:
    reading = ReadMonitor()
    for _ in range(3):
        with pytest.raises(GroupAuthorizationFailedError):
            await reading.watched(fails)
        await asyncio.sleep(5)
    reported = reading.problem(STUCK_S)
    await reading.watched(works)

    assert reported == (
        "requests have not been read for 15 s: no right to the consumer group acme.worker "
        "(GroupAuthorizationFailedError): grant the user Read on the group (Describe, to look "
        "at it)"
    )
    assert reading.problem(STUCK_S) is None


@on_virtual_time
async def test_a_consumer_that_stops_has_no_error() -> None:
    async def stops(**_: Any) -> Any:
        raise ConsumerStoppedError

    reading = ReadMonitor()
    with pytest.raises(ConsumerStoppedError):
        await reading.watched(stops)

    assert reading.problem(STUCK_S) is None


@on_virtual_time
async def test_records_wait_from_the_moment_at_which_their_lane_stands_still() -> None:
    reading = ReadMonitor()
    reading.look(
        {0: PartitionPosition(3, 9), 1: PartitionPosition(5, 5), 2: PartitionPosition(None, 4)}
    )
    assert list(filter(reading.is_read_out, range(4))) == [1]
    await asyncio.sleep(STUCK_S - 1)
    reading.look(
        {0: PartitionPosition(4, 9), 1: PartitionPosition(5, 6), 2: PartitionPosition(None, 4)}
    )
    await reading.watched(works)
    await asyncio.sleep(2)

    troubles = [reading.problem_of(partition, STUCK_S) for partition in range(4)]
    assert troubles == [
        None,
        None,
        (
            "records from an unknown place to 4 have not been read for 11 s: the consumer is "
            "asked for records and delivers none of them"
        ),
        None,
    ]
    reading.look({0: PartitionPosition(9, 9)})
    assert [reading.unread_s(partition) for partition in range(3)] == [0.0, 0.0, 0.0]


@on_virtual_time
async def test_a_loop_of_polls_that_has_ended_is_noticed() -> None:
    reading = ReadMonitor()
    await reading.watched(works)
    await asyncio.sleep(STUCK_S + 20)

    assert reading.problem(STUCK_S) == (
        "requests have not been read: the consumer has not been asked for records for 30 s"
    )


@on_virtual_time
async def test_what_fails_for_a_session_is_replaced_and_ever_more_rarely_if_it_goes_on() -> None:
    reading = ReadMonitor()
    consumers = Consumers(reading)
    renewal = consumers.renewal()
    renewal.start()
    await polls(reading, works, 60)
    assert consumers.made_at == []
    began = asyncio.get_running_loop().time()
    await polls(reading, fails, 600)
    await renewal.stop()
    pauses = [at - began for at in consumers.made_at]

    assert SESSION_S < pauses[0] <= SESSION_S + 2 * LOOK_EVERY_S
    assert 3 <= len(pauses) <= 9


@on_virtual_time
async def test_a_consumer_that_cannot_be_started_is_tried_until_it_can() -> None:
    reading = ReadMonitor()
    consumers = Consumers(reading, broken=10)
    renewal = consumers.renewal()
    renewal.start()
    await polls(reading, fails, SESSION_S + 6)
    await asyncio.sleep(11 * AGAIN_MAX_S)
    await polls(reading, works, 30)
    await renewal.stop()

    assert len(consumers.made_at) == 11
    assert reading.problem(STUCK_S) is None


@on_virtual_time
async def test_a_consumer_that_delivers_nothing_is_replaced() -> None:
    reading = ReadMonitor()
    consumers = Consumers(reading)
    renewal = consumers.renewal()
    renewal.start()
    reading.look({0: PartitionPosition(3, 9)})
    await polls(reading, works, STUCK_S + 3)
    await renewal.stop()

    assert len(consumers.made_at) == 1


@on_virtual_time
async def test_a_process_that_stood_still_blames_no_consumer() -> None:
    reading, loop = ReadMonitor(), asyncio.get_running_loop()
    consumers = Consumers(reading)
    renewal = consumers.renewal()
    renewal.start()
    reading.look({0: PartitionPosition(3, 9)})
    await reading.watched(works)
    await asyncio.sleep(LOOK_EVERY_S / 2)
    loop.block(300.0)  # type: ignore[attr-defined]  # see virtual
    await polls(reading, works, 30)
    await renewal.stop()

    assert consumers.made_at == []


@on_virtual_time
async def test_a_consumer_that_was_never_asked_for_records_is_noticed() -> None:
    reading = ReadMonitor()
    await asyncio.sleep(STUCK_S + 1)

    assert reading.problem(STUCK_S) == (
        "requests have not been read: the consumer has not been asked for records"
    )


def test_the_words_name_what_it_is_about() -> None:
    of_topic = TopicAuthorizationFailedError(TopicPartition("acme.requests.v1", 3))
    of_topics = TopicAuthorizationFailedError({"acme.b.v1", "acme.a.v1"})

    assert describe_error(of_topic).startswith("no right to the topic acme.requests.v1 (Topic")
    assert describe_error(of_topics).startswith("no right to the topic acme.a.v1, acme.b.v1 (Topic")
    assert describe_error(NotLeaderForPartitionError("t-3")) == "NotLeaderForPartitionError: t-3"


@pytest.mark.parametrize(
    "error",
    [
        LaneLost(),
        TimeoutError(),
        KafkaTimeoutError(),
        KafkaError(),
        ProducerFenced(),
        AssertionError(),
        EOFError(),
        ValueError(),
        GroupAuthorizationFailedError(),
        ConnectionResetError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_is_without_words(error: BaseException) -> None:
    words = describe_error(error)

    assert type(error).__name__ in words
    assert not words.endswith((":", ": "))
    assert len(words.split()) > 3
