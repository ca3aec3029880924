"""One transaction of an operator's changes, whose producer another operator has cut off."""

import asyncio
from contextlib import nullcontext
from typing import Any, cast

import pytest
from aiokafka.errors import ProducerFenced

from answerbus.client.bus import Bus
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.dead_letter import Dismissed
from answerbus.partition import Layout
from services.operators.adapters.writer import DeadLetterChange, Superseded, Writer
from tests.unit.operators.runs.events import event


class FencedProducer:
    """Learns between two records that it is cut off, as ours does."""

    def __init__(self) -> None:
        self.sent = 0

    async def begin_transaction(self) -> None: ...

    async def send(self, *_: Any, **__: Any) -> "asyncio.Future[object]":
        if self.sent:
            raise ProducerFenced
        self.sent += 1
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ProducerFenced())
        return future


class SilentBus:
    prefix = ""
    explained = nullcontext


async def test_who_is_cut_off_between_two_records_is_superseded() -> None:
    dismissed = event("dismissed/dismissed")
    assert isinstance(dismissed, Dismissed)
    producer = cast("TransactionalProducer", FencedProducer())
    writer = Writer(cast("Bus", SilentBus()), producer, Layout(1))

    with pytest.raises(Superseded):
        await writer.commit([DeadLetterChange(dismissed, 0, None)] * 2)
