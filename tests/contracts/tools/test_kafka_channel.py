"""What a tool server's channel makes of a broker's refusals: only what cannot change is final."""

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from answerbus.client.bus import Bus
from answerbus.tools.channel import Answer, ChannelUnavailable, ReplyRefused
from answerbus.tools.kafka import KafkaChannel

PARTITIONS = {0, 1, 2}


class RefusingProducer:
    """Raises on a look at the partitions, or on sending."""

    def __init__(self, on_look: Exception | None, on_send: Exception | None) -> None:
        self._on_look, self._on_send = on_look, on_send

    async def partitions_for(self, _topic: str) -> set[int]:
        if self._on_look:
            raise self._on_look
        return PARTITIONS

    async def send_and_wait(self, *_: Any, **__: Any) -> None:
        if self._on_send:
            raise self._on_send


async def answered(producer: RefusingProducer, partition: int = 0) -> None:
    nowhere: Any = None
    given: Any = producer
    channel = KafkaChannel(Bus("localhost:1", "acme", {}), "echo", nowhere, given)
    await channel.answer(Answer(partition, b"w-1", b"{}", []))


@pytest.mark.parametrize(
    "error",
    [
        TopicAuthorizationFailedError("acme.tool-results.v1"),
        UnknownTopicOrPartitionError(),
        KafkaTimeoutError(),
        ConnectionResetError(),
    ],
)
@pytest.mark.parametrize(
    "refusing",
    [lambda error: RefusingProducer(error, None), lambda error: RefusingProducer(None, error)],
    ids=["look", "send"],
)
async def test_an_answer_waits_for_a_broker_and_for_a_right(
    error: Exception, refusing: Callable[[Exception], RefusingProducer]
) -> None:
    """A tool that has run is not run in vain."""
    with pytest.raises(ChannelUnavailable):
        await answered(refusing(error))


async def test_an_answer_without_a_place_is_final() -> None:
    with pytest.raises(ReplyRefused, match="no partition 3"):
        await answered(RefusingProducer(None, None), partition=3)
    with pytest.raises(ReplyRefused):
        await answered(RefusingProducer(None, MessageSizeTooLargeError(1)))
    await answered(RefusingProducer(None, None))
