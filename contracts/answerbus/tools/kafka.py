"""The channel of a tool server on Kafka: one consumer in the toolset's group, one producer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    MessageSizeTooLargeError,
)
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.envelope import TOOLS_SOURCE, encode
from answerbus.tools.channel import (
    Answer,
    ChannelUnavailable,
    ClaimLost,
    Received,
    ReplyRefused,
)
from answerbus.tools.claims import Claims
from answerbus.tools.core.positions import Position
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import TOOL_RESULTS, tool_calls, toolset_cards

POLL_MS = 200
SESSION_MS = 10_000  # how long a server may be silent before others take its calls
# A consumer whose records wait for a tool must not be taken for one that hangs: the event loop,
# which sends heartbeats, is what hangs where a tool blocks it.
POLL_INTERVAL_MS_MAX = 24 * 3_600_000
_HEARTBEATS_A_SESSION = 4
ASK_TIMEOUT_S = 30.0  # where the group is in a partition
AGAIN_AFTER_S = 1.0

_log = logging.getLogger(__name__)


class KafkaChannel:
    """See `Channel`. Receiving raises BusUnavailable."""

    def __init__(
        self, bus: Bus, toolset: str, consumer: RecordConsumer, producer: AIOKafkaProducer
    ) -> None:
        self._bus, self._consumer, self._producer = bus, consumer, producer
        self._calls = tool_calls(toolset)
        self._results = TOOL_RESULTS.full_name(bus.prefix)
        self._rebalances: _Rebalances | None = None

    def follow(self, claims: Claims) -> None:
        """Join the group; `claims` gets the partitions of the server."""
        self._rebalances = _Rebalances(self, self._consumer, claims)
        name = self._calls.full_name(self._bus.prefix)
        self._consumer.subscribe([name], listener=self._rebalances)

    def leave(self) -> None:
        """Begin with no more partitions."""
        if self._rebalances:
            self._rebalances.stop()

    async def receive(self, limit: int) -> Sequence[Received]:
        """See `Channel`."""
        with self._bus.explained():
            found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=limit)
        return [_received(record) for records in found.values() for record in records]

    async def commit(self, positions: Mapping[int, Position]) -> None:
        """See `Channel`."""
        given = {
            self._bus.place(self._calls, partition): OffsetAndMetadata(at.offset, at.text)
            for partition, at in positions.items()
        }
        if not given:
            return
        try:
            await self._consumer.commit(given)
        except (CommitFailedError, IllegalStateError, KafkaError, OSError) as error:
            raise ClaimLost(describe_error_for_log(error)) from error

    async def committed(self, partitions: Iterable[int]) -> Mapping[int, Position]:
        """Where the group is in these partitions; from their first records where nowhere."""
        places = [self._bus.place(self._calls, partition) for partition in partitions]
        # What is beside an offset is public in Kafka and in aiokafka's admin client, which would
        # be one more connection; its consumer gives the offset alone.
        coordinator: Any = self._consumer._coordinator  # noqa: SLF001
        known = await coordinator.fetch_committed_offsets(places)
        found = {
            place.partition: Position(at.offset, at.metadata)
            for place, at in known.items()
            if at.offset >= 0
        }
        if new := [place for place in places if place.partition not in found]:
            starts = await self._consumer.beginning_offsets(new)
            found |= {place.partition: Position(start, "") for place, start in starts.items()}
        return found

    async def answer(self, answer: Answer) -> None:
        """See `Channel`."""
        try:
            known = await self._producer.partitions_for(self._results)
            if answer.partition not in known:
                raise ReplyRefused(f"{self._results} has no partition {answer.partition}")
            await self._producer.send_and_wait(
                self._results,
                answer.value,
                answer.key,
                answer.partition,
                headers=answer.headers,
            )
        except MessageSizeTooLargeError as error:
            raise ReplyRefused(describe_error_for_log(error)) from error
        except (KafkaError, OSError) as error:
            raise ChannelUnavailable(describe_error_for_log(error)) from error

    async def announce(self, card: ToolsetCard) -> None:
        """Write the card, for workers and operators. Raises BusUnavailable."""
        encoded = encode(card, source=TOOLS_SOURCE)
        place = self._bus.place(toolset_cards(card.toolset), 0)
        with self._bus.explained():
            await self._producer.send_and_wait(
                place.topic, encoded.value, encoded.key, place.partition, headers=encoded.headers
            )


@asynccontextmanager
async def kafka_channel(bus: Bus, toolset: str, session_ms: int) -> AsyncIterator[KafkaChannel]:
    """A channel, connected; it joins its group when it begins to follow. Raises BusUnavailable."""
    consumer = bus.consumer(
        group_id=f"{bus.prefix}.tools.{toolset}",
        auto_offset_reset="earliest",
        max_poll_interval_ms=POLL_INTERVAL_MS_MAX,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // _HEARTBEATS_A_SESSION,
    )
    async with bus.running(bus.producer()) as producer, bus.running(consumer):
        channel = KafkaChannel(bus, toolset, consumer, producer)
        try:
            yield channel
        finally:
            channel.leave()


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """Begins with each assigned partition once it is known where the group is in it.

    In the background, while it is paused: aiokafka sends no heartbeat while a listener waits, and
    gives out records meanwhile. A partition without a leader may say nothing for hours.
    """

    def __init__(self, channel: KafkaChannel, consumer: RecordConsumer, claims: Claims) -> None:
        self._channel, self._consumer, self._claims = channel, consumer, claims
        self._beginning: list[asyncio.Task[None]] = []

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.stop()
        await self._claims.revoked([place.partition for place in revoked])

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.stop()
        places = [*assigned]
        self._consumer.pause(*places)
        self._beginning = [asyncio.create_task(self._begin(place)) for place in places]

    def stop(self) -> None:
        """Begin with none of those that are still asked about."""
        for task in self._beginning:
            task.cancel()

    async def _begin(self, place: TopicPartition) -> None:
        while True:
            try:
                found = await bounded(self._channel.committed([place.partition]), ASK_TIMEOUT_S)
                self._consumer.resume(place)
            except (KafkaError, OSError) as error:  # TimeoutError is an OSError
                cause = describe_error_for_log(error)
                _log.warning("it is not known where to begin in %s: %s", place, cause)
                await asyncio.sleep(AGAIN_AFTER_S)
            else:
                self._claims.assigned(found)
                return


def _received(record: Any) -> Received:
    if isinstance(record, Unreadable):
        return Received(record.partition, record.offset, record.end, None)
    return Received(
        record.partition, record.offset, record.offset + 1, record.value, record.headers
    )
