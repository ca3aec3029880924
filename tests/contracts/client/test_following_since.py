"""Where following begins: Kafka looks up no time before 1970."""

from datetime import UTC, datetime
from typing import Any

from aiokafka import TopicPartition

from answerbus.client.follow import _start

PLACE = TopicPartition("steps", 0)


class Reader:
    def __init__(self) -> None:
        self.asked: list[int] = []

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 9)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[Any, Any]:
        self.asked += times.values()
        return {}

    def seek(self, place: TopicPartition, offset: int) -> None:
        del place, offset


async def test_a_time_before_1970_is_the_start_of_retention() -> None:
    reader: Any = Reader()

    await _start(reader, {PLACE: ("steps", 0)}, {}, datetime(1960, 1, 1, tzinfo=UTC))

    assert reader.asked == [0]
