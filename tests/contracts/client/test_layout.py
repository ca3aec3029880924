"""The records of lanes are read for as long as Kafka gives any, however slowly."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from answerbus.client import layout
from answerbus.envelope import encode
from answerbus.private.ledger import LaneRecord

PLACE = TopicPartition("answerbus.ledger.v1", 0)
RECORDS = 15
PAUSE_S, LIMIT_S = 0.1, 1.0
LANE = LaneRecord(
    partitions=1, openings_without_progress=0, worker="w", at=datetime(2026, 11, 29, tzinfo=UTC)
)


class ThrottledConsumer:
    """Gives one record after each pause, and none from `silent_at` on."""

    def __init__(self, silent_at: int) -> None:
        self._silent_at, self._next = silent_at, 0

    async def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, RECORDS)

    def assign(self, _: Sequence[TopicPartition]) -> None: ...

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._next = offset

    async def position(self, _: TopicPartition) -> int:
        return self._next

    async def getmany(self, *_: TopicPartition, timeout_ms: int) -> Mapping[Any, Sequence[Any]]:
        await asyncio.sleep(PAUSE_S)
        if self._next >= self._silent_at:
            return {}
        record, self._next = encode(LANE), self._next + 1
        found = SimpleNamespace(key=record.key, value=record.value, offset=self._next - 1)
        return {PLACE: [found]}


async def lanes(silent_at: int) -> Mapping[int, LaneRecord]:
    consumer: Any = ThrottledConsumer(silent_at)
    return await layout.written_lanes(consumer, PLACE.topic, 1)


async def test_slow_records_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LOOK_TIMEOUT_S", LIMIT_S)

    assert await lanes(RECORDS) == {0: LANE}


async def test_a_kafka_that_gives_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LOOK_TIMEOUT_S", LIMIT_S)

    with pytest.raises(TimeoutError):
        await lanes(1)
