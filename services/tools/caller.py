"""Publishes calls and reads their results, in place of a worker."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer

from answerbus.client.bus import Bus
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.client.turns import in_turns
from answerbus.envelope import CLIENT_SOURCE, Undecodable, decode, encode
from answerbus.event import Event
from answerbus.failure import Problem
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import TOOL_RESULTS, card_owner, tool_calls
from services.operators.adapters.reader import reading
from services.operators.records.stored import Stored
from services.settings.settings import SetUpError
from services.worker.core.run.tool_report import InvalidQuestion, read_report

CALLS_PARTITION = 0  # of the toolset's topic: one server has it, and reads the calls in their order
_POLL_MS = 200


@dataclass(frozen=True, slots=True)
class Reply:
    """A record of the results topic, as a worker reads it; `problems` are those it looks past."""

    partition: int
    key: bytes | None
    event: Event | Undecodable
    problems: tuple[Problem, ...] = ()

    @classmethod
    def read(cls, partition: int, key: bytes | None, value: bytes | None) -> "Reply":
        """The reply in such a record."""
        found = decode(value)
        if not isinstance(found, Undecodable):
            return cls(partition, key, found)
        report = read_report(value)
        event = report.end() if isinstance(report, InvalidQuestion) else report
        return cls(partition, key, event, found.problems)


class Caller:
    """Calls of one toolset. Every method raises BusUnavailable if Kafka cannot be used."""

    def __init__(
        self, bus: Bus, toolset: str, producer: AIOKafkaProducer, consumer: RecordConsumer
    ) -> None:
        self._bus, self._producer, self._consumer = bus, producer, consumer
        self._calls = tool_calls(toolset)

    async def publish(self, values: Sequence[bytes]) -> None:
        """In this order, all into one partition."""
        for value in values:
            await self._send(self._producer, value)

    async def publish_aborted(self, value: bytes, transactional_id: str) -> None:
        """In a transaction that is never committed, as a worker's that was replaced."""
        producer = TransactionalProducer(
            bootstrap_servers=self._bus.servers,
            transactional_id=transactional_id,
            **self._bus.options,
        )
        async with self._bus.running(producer):
            with self._bus.explained():
                await producer.begin_transaction()
                await self._send(producer, value)
                await producer.abort_transaction()

    async def replies(self) -> Sequence[Reply]:
        """New replies since the last call; empty after a short wait."""
        with self._bus.explained():
            found = await self._consumer.getmany(timeout_ms=_POLL_MS)
        return [
            Reply.read(record.partition, record.key, record.value)
            for records in found.values()
            async for record in in_turns(records)
            if not isinstance(record, Unreadable)
        ]

    async def _send(self, producer: AIOKafkaProducer, value: bytes) -> None:
        """The bytes as they are; an event has its key and headers, as a worker's."""
        place, event = self._bus.place(self._calls, CALLS_PARTITION), decode(value)
        encoded = None if isinstance(event, Undecodable) else encode(event, source=CLIENT_SOURCE)
        key, headers = (encoded.key, encoded.headers) if encoded else (None, [])
        with self._bus.explained():
            await producer.send_and_wait(place.topic, value, key, place.partition, headers=headers)


@asynccontextmanager
async def calling(bus: Bus, toolset: str) -> AsyncIterator[Caller]:
    """A caller that sees each answer from now on. Raises BusUnavailable, SetUpError."""
    counts = await topic_counts(bus, toolset)
    consumer = bus.consumer(auto_offset_reset="latest", fetch_max_wait_ms=_POLL_MS)
    async with bus.running(bus.producer()) as producer, bus.running(consumer):
        places = [bus.place(TOOL_RESULTS, number) for number in range(counts)]
        consumer.assign(places)
        with bus.explained():
            for place, end in (await consumer.end_offsets(places)).items():
                consumer.seek(place, end)
        yield Caller(bus, toolset, producer, consumer)


async def topic_counts(bus: Bus, toolset: str) -> int:
    """The partitions of the results topic. Raises SetUpError where the toolset has no topic."""
    from answerbus.client.errors import BusUnavailable  # noqa: PLC0415

    try:
        counts = await bus.counts(tool_calls(toolset), TOOL_RESULTS)
    except BusUnavailable as error:
        if error.__cause__ is not None:
            raise
        raise SetUpError(
            f"There is no topic {tool_calls(toolset).full_name(bus.prefix)}, or no right to see "
            f"it: start a server of the toolset with `answerbus tools serve`, or create its "
            f"topics with `answerbus tools topics {toolset}`."
        ) from None
    return counts[TOOL_RESULTS]


async def cards(bus: Bus) -> Sequence[ToolsetCard | Undecodable]:
    """The card of each toolset, as announced last, by name; and records that are not cards.

    As for a worker, a card in the topic of another toolset, or under another key, is not a card.
    """
    topics, found = await bus.card_topics(), dict[str, ToolsetCard | Undecodable]()
    if not topics:
        return []
    async with reading(bus, topics) as reader:
        async for stored in reader.records(partition=0):
            _take(stored, card_owner(stored.topic) or "", found)
    return [found[toolset] for toolset in sorted(found)]


def _take(stored: Stored, toolset: str, found: dict[str, ToolsetCard | Undecodable]) -> None:
    if stored.fault is not None or stored.key != toolset.encode():
        return
    found.pop(toolset, None)
    if stored.value is None:
        return
    match decode(stored.value):
        case Undecodable() as unreadable:
            found[toolset] = unreadable
        case ToolsetCard(toolset=of) as card if of == toolset:
            found[toolset] = card
        case _:
            pass
