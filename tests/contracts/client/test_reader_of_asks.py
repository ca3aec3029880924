"""The reader behind all asks of a client: its end is an error of those that wait."""

import asyncio
from typing import Any, Never

import pytest
from aiokafka import TopicPartition

from answerbus.client.errors import BusUnavailable
from answerbus.client.outcome_reader import OutcomeReader
from answerbus.client.published_record import PublishedRecord
from answerbus.partition import Layout
from answerbus.request_key import RequestKey
from tests.contracts.client.test_reader_of_a_job import LIMIT_S, CancelsItself, OneBus


class ForAsks(CancelsItself):
    """It does so once it reads."""

    def __init__(self) -> None:
        self._resumed = asyncio.Event()

    def pause(self, *_: TopicPartition) -> None: ...

    def resume(self, *_: TopicPartition) -> None:
        self._resumed.set()

    async def seek_to_end(self, *_: TopicPartition) -> bool:
        return True

    async def getmany(self, **_: object) -> Never:
        await self._resumed.wait()
        raise asyncio.CancelledError


class AsksBus(OneBus):
    async def layout(self, *_: object) -> Layout:
        return Layout(1)

    def consumer(self, **_: object) -> Any:
        return ForAsks()


async def test_a_consumer_that_cancels_itself_ends_each_ask_as_unavailable() -> None:
    reader = OutcomeReader(AsksBus("there:9092", "answerbus", {}))

    async with asyncio.timeout(LIMIT_S), reader.running():
        with pytest.raises(BusUnavailable, match="there:9092"):
            async with reader.awaiting(
                RequestKey("w", "r-1"), 0, PublishedRecord(b"{}")
            ) as outcome:
                await outcome

    assert reader.has_ended
