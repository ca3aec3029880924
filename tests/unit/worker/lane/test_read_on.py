"""A reading of a lane's past goes on where one that failed has stopped."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from answerbus.topics import LEDGER, RETRIES
from services.worker.adapters.kafka import shard
from services.worker.adapters.kafka.shard import NO_PROGRESS_S, KafkaShard, Names
from services.worker.health.lane_problem import opening_progress
from services.worker.ports.kafka import PastCut, ReadProgress, StoredRecord
from tests.unit.worker.lane.virtual import VirtualClock, on_virtual_time, run

AT = TopicPartition(LEDGER.full_name(), 3)
EMPTY = TopicPartition(RETRIES.full_name(), 3)


class Reader:
    """Gives a few records of the ledger a second; `fails_at` is an offset."""

    end = 1_000
    fails_at: int | None = None
    is_silent = False

    def __init__(self, **_: Any) -> None:
        self.positions: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def assign(self, _: list[TopicPartition]) -> None:
        pass

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.positions[place] = offset

    async def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {AT: 100, EMPTY: 0}

    async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {AT: self.end, EMPTY: 0}

    async def position(self, place: TopicPartition) -> int:
        return self.positions[place]

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[ConsumerRecord]]:
        await asyncio.sleep(1)
        at = self.positions[AT]
        if Reader.fails_at is not None and at >= Reader.fails_at:
            raise ConnectionError
        if self.is_silent:
            return {}
        self.positions[AT] = min(at + 5, self.end)
        return {AT: [_record(n) for n in range(at, self.positions[AT])]}


def _record(offset: int) -> Any:
    kept = {"key": b"k", "value": b"v", "headers": (), "offset": offset}
    return SimpleNamespace(**kept, timestamp=0, timestamp_type=1)


@pytest.fixture
def reader() -> Any:
    with (
        mock.patch.object(shard, "RecordConsumer", Reader),
        mock.patch.multiple(Reader, fails_at=None, is_silent=False, end=1_000),
    ):
        yield Reader


def new_shard() -> KafkaShard:
    return KafkaShard(Names("answerbus", "g", 3, {}), VirtualClock())


def taking(taken: list[int]) -> Callable[[StoredRecord], None]:
    return lambda record: taken.append(record.offset)


def test_each_record_is_taken_once_over_readings_that_fail(reader: type[Reader]) -> None:
    taken: list[int] = []

    async def main() -> None:
        progress = ReadProgress()
        for stop in (300, 301, 500, None):
            reader.fails_at = stop
            try:
                await new_shard().read_private(taking(taken), progress)
            except ConnectionError:
                assert str(progress).startswith(f"read {len(taken):,} of 900 offsets")
        assert progress.done == progress.whole == 900

    run(main())
    assert taken == list(range(100, 1_000))


@on_virtual_time
async def test_a_reading_that_goes_on_may_last_and_one_that_stands_ends(
    reader: type[Reader],
) -> None:
    loop, progress = asyncio.get_running_loop(), ReadProgress()
    began = loop.time()
    await new_shard().read_private(lambda _: None, progress)
    assert loop.time() - began > 5 * NO_PROGRESS_S
    reader.end, reader.is_silent = 2_000, True
    with pytest.raises(TimeoutError, match=r"read 900 of 1,900 offsets.*doctor"):
        await new_shard().read_private(lambda _: None, progress)
    assert loop.time() - began < 8 * NO_PROGRESS_S


@on_virtual_time
async def test_topics_that_were_made_again_are_not_read_on(reader: type[Reader]) -> None:
    progress = ReadProgress()
    await new_shard().read_private(lambda _: None, progress)
    reader.end = 200
    with pytest.raises(PastCut):
        await new_shard().read_private(lambda _: None, progress)


def test_how_far_a_lane_is_can_be_said() -> None:
    lane: Any = SimpleNamespace(progress=ReadProgress())
    assert opening_progress(lane) == ""

    lane.progress = ReadProgress({LEDGER: 1_500}, {LEDGER: 1_000}, {LEDGER: 3_000})
    assert opening_progress(lane) == ": read 500 of 2,000 offsets of ledger and retries (25 %)"
