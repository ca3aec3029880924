"""Cards are used only while there is a topic for the calls of their toolset."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from answerbus.envelope import encode
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import TOOLSETS, tool_calls
from services.worker.adapters.kafka.card_reader import (
    AGAIN_AFTER_S,
    CATCH_UP_S,
    LOOK_EVERY_S,
    CardReader,
)
from services.worker.core.run.known_tools import NO_TOPIC, KnownTools, schema_fault
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
    fails: bool = False  # once
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
        if self.fails:
            self.fails = False
            raise KafkaConnectionError
        new, self._read = self.cards[self._read :], len(self.cards)
        return {PLACE: new}

    def announce(self, one: ToolsetCard) -> None:
        self.cards.append(Record(one.toolset.encode(), encode(one).value))


async def nothing_to_do() -> None:
    pass


async def fault_at_once(one: ToolsetCard) -> str | None:
    return schema_fault(one)


def reader_of(consumer: Consumer, known: KnownTools) -> CardReader:
    return CardReader(
        lambda: consumer,  # type: ignore[arg-type, return-value]
        lambda topic: topic.full_name(),
        known,
        prepare=nothing_to_do,
        fault_of=fault_at_once,  # no thread knows of virtual time
    )


def test_a_toolset_is_used_from_when_its_topic_is_there_until_it_is_gone() -> None:
    calls = tool_calls("orders").full_name()

    async def main() -> None:
        consumer, known = Consumer(), KnownTools()
        consumer.announce(card("get"))
        reader = reader_of(consumer, known)
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


def test_catching_up_takes_until_what_was_announced_before_is_read() -> None:
    async def main() -> None:
        consumer, known = Consumer(), KnownTools()
        consumer.there.add(tool_calls("orders").full_name())
        reader = reader_of(consumer, known)
        reading = asyncio.create_task(reader.run())
        await reader.until_read()

        consumer.announce(card("get"))
        await asyncio.gather(reader.catch_up(), reader.catch_up())
        assert set(known.tools) == {"orders.get"}

        consumer.announce(card("get", "pay"))
        consumer.fails = True  # and is begun anew
        await reader.catch_up()
        assert set(known.tools) == {"orders.get", "orders.pay"}
        reading.cancel()
        await asyncio.wait([reading])

    run(main())


def test_catching_up_finds_the_topic_of_a_toolset_that_was_made_since() -> None:
    async def main() -> None:
        consumer, known = Consumer(), KnownTools()
        consumer.announce(card("get"))
        reader = reader_of(consumer, known)
        reading = asyncio.create_task(reader.run())
        await reader.until_read()
        assert known.tools == {}

        consumer.there.add(tool_calls("orders").full_name())
        await reader.catch_up()
        assert set(known.tools) == {"orders.get"}
        reading.cancel()
        await asyncio.wait([reading])

    run(main())


def test_catching_up_ends_where_no_card_can_be_read() -> None:
    async def main() -> None:
        consumer = Consumer(there=set())
        reader = reader_of(consumer, KnownTools())
        reading = asyncio.create_task(reader.run())
        await reader.until_read()
        began = asyncio.get_running_loop().time()
        await reader.catch_up()
        assert asyncio.get_running_loop().time() - began <= AGAIN_AFTER_S

        reading.cancel()  # nothing reads any more, as while the broker is away
        await asyncio.wait([reading])
        await reader.catch_up()
        assert asyncio.get_running_loop().time() - began <= AGAIN_AFTER_S + CATCH_UP_S

    run(main())
