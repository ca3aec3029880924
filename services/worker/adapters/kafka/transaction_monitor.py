"""Watches for open transactions that keep records from being read, and names whose they are."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from aiokafka import TopicPartition

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error
from services.kafka.open_transactions import first_open_transaction
from services.kafka.options import client_options
from services.settings.settings import KafkaSettings
from services.worker.tasks.loop_time import loop_time
from services.worker.tasks.rounds import rounds

LOOK_EVERY_S = 2.0
ASK_TIMEOUT_S = 10.0
HELD_S = 5.0  # transactions of workers take milliseconds, those of publishers should

_NO_LEADER = (None, -1)

_log = logging.getLogger(__name__)

Asks = Callable[[TopicPartition], Coroutine[Any, Any, object | None]]


class Consumer(Protocol):
    """The part of a consumer that knows where partitions end."""

    def assignment(self) -> Collection[TopicPartition]: ...

    def leader_of(self, place: TopicPartition) -> int | None:
        """The broker that leads a partition: -1 if none does, None if unknown."""
        ...

    def end_offsets(
        self, places: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        """Where what is decided ends: at the first open transaction."""
        ...

    def high_watermarks(
        self, places: Sequence[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        """Where they end, with what is not decided."""
        ...


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Records between two offsets cannot be read, `since` so long in loop time; `who` is known."""

    place: TopicPartition
    stable: int
    end: int
    since: float
    who: str | None = None

    def describe(self, lasts_s: float) -> str:
        return (
            f"an open transaction holds {self.place.topic} from offset {self.stable} to {self.end} "
            f"back for {lasts_s:.0f} s ({self.who or 'its producer is not known yet'}): end its "
            "producer, or abort it with `kafka-transactions.sh`"
        )


class TransactionMonitor:
    """Of all that some consumers read; `ask` finds out whose transaction it is."""

    def __init__(self, consumers: Sequence[Callable[[], Consumer | None]], ask: Asks) -> None:
        """A consumer is None while there is none."""
        self._consumers, self._ask = consumers, ask
        self._held: list[Mapping[TopicPartition, HeldBack]] = [{} for _ in consumers]

    async def run(self) -> None:
        await rounds("the question for open transactions", self.look, LOOK_EVERY_S)

    async def look(self) -> None:
        """Compare where each partition ends with where it can be read to."""
        for number, current in enumerate(self._consumers):
            try:
                self._held[number] = await self._look(current(), self._held[number])
            except Exception as error:  # what is wrong with Kafka is named elsewhere
                _log.debug("open transactions were not looked for: %s", describe_error(error))

    async def _look(
        self, consumer: Consumer | None, before: Mapping[TopicPartition, HeldBack]
    ) -> Mapping[TopicPartition, HeldBack]:
        if consumer is None:
            return {}
        places = [at for at in consumer.assignment() if consumer.leader_of(at) not in _NO_LEADER]
        ends = await bounded(consumer.high_watermarks(places), ASK_TIMEOUT_S)
        stable = await bounded(consumer.end_offsets(places), ASK_TIMEOUT_S)
        held = [
            _known(HeldBack(place, stable[place], ends[place], loop_time()), before.get(place))
            for place in places
            if stable[place] < ends[place]
        ]
        named = await asyncio.gather(*map(self._named, held))
        return {found.place: found for found in named}

    def problem_of(self, partition: int) -> str | None:
        """Why its lane waits, once it has for HELD_S."""
        held = self._longest(partition)
        lasts_s = self.held_s(partition)
        return held.describe(lasts_s) if held and lasts_s >= HELD_S else None

    def held_s(self, partition: int) -> float:
        """How long something of its lane has been held back."""
        held = self._longest(partition)
        return loop_time() - held.since if held else 0.0

    def _longest(self, partition: int) -> HeldBack | None:
        held = [found for each in self._held for found in each.values()]
        mine = (found for found in held if found.place.partition == partition)
        return min(mine, key=lambda found: found.since, default=None)

    async def _named(self, held: HeldBack) -> HeldBack:
        """Asked once, when it has lasted too long; the log has it then."""
        lasts_s = loop_time() - held.since
        if held.who or lasts_s < HELD_S:
            return held
        try:
            found = await bounded(self._ask(held.place), ASK_TIMEOUT_S)
        except Exception as error:
            who = f"its producer cannot be named: {describe_error(error)}"
        else:
            if found is None:
                return held  # it has ended meanwhile
            who = str(found)
        named = replace(held, who=who)
        _log.warning("lane %d waits: %s", held.place.partition, named.describe(lasts_s))
        return named


def _known(held: HeldBack, before: HeldBack | None) -> HeldBack:
    """Since it was first seen there: what is decided has not come any further."""
    if before is None or before.stable != held.stable:
        return held
    return replace(held, since=before.since, who=before.who)


def watching_transactions(
    consumers: Sequence[Callable[[], Consumer | None]], settings: KafkaSettings
) -> TransactionMonitor:
    """One that asks brokers of the settings, with a client for each question."""

    def ask(place: TopicPartition) -> Coroutine[Any, Any, object | None]:
        return first_open_transaction(client_options(settings), place)

    return TransactionMonitor(consumers, ask)
