"""Cards are used only while there is a topic for the calls of their toolset."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from answerbus.envelope import encode
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import TOOLSETS, tool_calls
from services.worker.adapters.kafka.card_reader import LOOK_EVERY_S, CardReader
from services.worker.core.run.known_tools import NO_TOPIC, KnownTools
from tests.unit.worker.core.run.test_known_tools import card
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import until

PLACE = TopicPartition(TOOLSETS.full_name(), 0)


@dataclass(frozen=True)
class Record:
    key: bytes
    value: bytes | None


@dataclass
class Consumer:
    """A broker with cards, and with topics that come and go."""

    cards: list[Record] = field(default_factory=list)
    there: set[str] = field(default_factory=lambda: {TOOLSETS.full_name()})
    _read: int = 0

    async def start(self) -> None:
        await asyncio.sleep(0)

    stop = start

    async def topics(self) -> set[str]:
        return set(self.there)

    def assign(self, _: Any) -> None:
        self._read = 0

    async def seek_to_beginning(self, _: Any) -> None:
        self._read = 0

    async def end_offsets(self, _: Any) -> Mapping[TopicPartition, int]:
        return {PLACE: len(self.cards)}

    async def position(self, _: Any) -> int:
        return self._read

    async def getmany(self, *, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Record]]:
        await asyncio.sleep(timeout_ms / 1000)
        new, self._read = self.cards[self._read :], len(self.cards)
        return {PLACE: new}

    def announce(self, one: ToolsetCard) -> None:
        self.cards.append(Record(one.toolset.encode(), encode(one).value))


async def nothing_to_do() -> None:
    pass


def test_a_toolset_is_used_from_when_its_topic_is_there_until_it_is_gone() -> None:
    calls = tool_calls("orders").full_name()

    async def main() -> None:
        consumer, known = Consumer(), KnownTools()
        consumer.announce(card("get"))
        reader = CardReader(
            lambda: consumer,  # type: ignore[arg-type, return-value]
            lambda topic: topic.full_name(),
            known,
            prepare=nothing_to_do,
        )
        reading = asyncio.create_task(reader.run())
        await reader.until_read()
        assert (known.tools, known.refused) == ({}, {"orders": NO_TOPIC})

        consumer.there.add(calls)
        await until(lambda: set(known.tools) == {"orders.get"}, LOOK_EVERY_S)
        consumer.announce(card("get", "pay"))
        await until(lambda: set(known.tools) == {"orders.get", "orders.pay"})

        consumer.there.remove(calls)
        await until(lambda: known.tools == {}, LOOK_EVERY_S + 1)
        assert known.refused == {"orders": NO_TOPIC}
        reading.cancel()
        await asyncio.wait([reading])

    run(main())
