"""A client that looks for outcomes reads a bounded number of bytes, and reports when it cannot."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from answerbus.client import history
from answerbus.client.bus import Bus
from answerbus.client.history import find_past_outcome
from answerbus.client.published_record import PublishedRecord
from answerbus.client.records.batch import Record
from answerbus.client.workflow_outcomes import Wanted, workflow_outcomes
from answerbus.request_key import RequestKey
from answerbus.topics import Topic
from tests.unit.worker.adapters.kafka.test_intake import record

SIZE = 100  # bytes a record
KEY = RequestKey("w-0", "r-1")


class Consumer:
    """1,000 records in each partition, of a size; a window of time has `window` more of them."""

    def __init__(self, window: int) -> None:
        self.window, self.read, self.windows = window, 0, 0
        self.at: dict[TopicPartition, int] = {}

    def assign(self, places: Collection[TopicPartition]) -> None:
        self.at = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.at[place] = offset

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 1_000)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[Any, Any]:
        self.windows += 1
        begin = 1_000 - self.windows * self.window
        return {place: found_at(begin) for place in times}

    async def position(self, place: TopicPartition) -> int:
        return self.at[place]

    async def getmany(self, *places: TopicPartition, timeout_ms: int) -> dict[Any, list[Record]]:
        if not places:
            raise AssertionError("a mistake of the library")
        self.read += len(places) * SIZE
        found = {place: [record(place, self.at[place], bytes(SIZE))] for place in places}
        for place in places:
            self.at[place] += 1
        return found


def found_at(offset: int) -> Any:
    return type("Found", (), {"offset": offset})


class FakeBus:
    """Gives one consumer, and explains nothing."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def consumer(self, **_: Any) -> Consumer:
        return self._consumer

    @asynccontextmanager
    async def running(self, _: Consumer) -> Any:
        yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        yield

    def places(self, topics: Iterable[Topic], partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(topic.name, number) for topic in topics for number in partitions]


def bus_of(consumer: Consumer) -> Bus:
    return cast("Bus", FakeBus(consumer))


@pytest.mark.parametrize("window", [1, 3, 50])
async def test_all_windows_together_are_bounded(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LOOK_BACK_BYTES_MAX", 1_000)
    consumer, never = Consumer(window), cast("Callable[[], bool]", bool)

    assert (
        await find_past_outcome(bus_of(consumer), KEY, PublishedRecord(b"{}"), [0], 10**12, never)
        is None
    )
    places = len(consumer.at)
    assert consumer.read < 1_000 + places * SIZE, "one poll more at most"


async def test_an_error_of_any_kind_ends_who_waits_for_an_outcome() -> None:
    bus, wanted = bus_of(Consumer(1)), Wanted("w-0", {})
    async with workflow_outcomes(bus, wanted, [0], is_new=True) as outcomes:
        with pytest.raises(AssertionError):
            await asyncio.wait_for(outcomes.wait("r-1"), 5)
