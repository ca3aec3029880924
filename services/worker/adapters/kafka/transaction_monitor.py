"""Watches for open transactions that keep requests from being read, and names whose they are."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import TopicPartition

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error
from services.kafka.open_transactions import first_open_transaction
from services.kafka.options import client_options
from services.settings.settings import KafkaSettings
from services.worker.tasks.rounds import rounds

LOOK_EVERY_S = 2.0
ASK_TIMEOUT_S = 10.0
HELD_S = 5.0  # transactions of workers take milliseconds, those of publishers should

_NO_LEADER = (None, -1)

_log = logging.getLogger(__name__)

Asks = Callable[[TopicPartition], Coroutine[Any, Any, object | None]]


class Consumer(Protocol):
    """The part of the group's consumer that knows where partitions end."""

    def assignment(self) -> Collection[TopicPartition]:
        """Those that we have."""
        ...

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
    """Requests between two offsets cannot be read, `since` so long in loop time; `who` is known."""

    stable: int
    end: int
    since: float
    who: str | None = None

    def describe(self, lasts_s: float) -> str:
        """For an operator."""
        return (
            f"an open transaction holds its requests from offset {self.stable} to {self.end} back "
            f"for {lasts_s:.0f} s ({self.who or 'its producer is not known yet'}): end its "
            "producer, or abort it with `kafka-transactions.sh`"
        )


class TransactionMonitor:
    """By partition of the requests topic; `ask` finds out whose transaction it is."""

    def __init__(self, current: Callable[[], Consumer], ask: Asks) -> None:
        self._current, self._ask = current, ask
        self._held: Mapping[int, HeldBack] = {}

    async def run(self) -> None:
        """Look for ever."""
        await rounds("the question for open transactions", self.look, LOOK_EVERY_S)

    async def look(self) -> None:
        """Compare where each of our partitions ends with where it can be read to."""
        try:
            await self._look()
        except Exception as error:  # what is wrong with Kafka is named elsewhere
            _log.debug("open transactions were not looked for: %s", describe_error(error))

    async def _look(self) -> None:
        consumer = self._current()
        places = [at for at in consumer.assignment() if consumer.leader_of(at) not in _NO_LEADER]
        ends = await bounded(consumer.high_watermarks(places), ASK_TIMEOUT_S)
        stable = await bounded(consumer.end_offsets(places), ASK_TIMEOUT_S)
        self._held = {
            place.partition: self._known(place, stable[place], ends[place])
            for place in places
            if stable[place] < ends[place]
        }
        await asyncio.gather(*map(self._name, places))

    def problem_of(self, partition: int) -> str | None:
        """Why its lane waits, once it has for HELD_S."""
        lasts_s = self.held_s(partition)
        return self._held[partition].describe(lasts_s) if lasts_s >= HELD_S else None

    def held_s(self, partition: int) -> float:
        """How long its requests have been held back."""
        held = self._held.get(partition)
        return _now() - held.since if held else 0.0

    def _known(self, place: TopicPartition, stable: int, end: int) -> HeldBack:
        """Since it was first seen there: what is decided has not come any further."""
        before = self._held.get(place.partition)
        if before is None or before.stable != stable:
            return HeldBack(stable, end, _now())
        return HeldBack(stable, end, before.since, before.who)

    async def _name(self, place: TopicPartition) -> None:
        """Asked once, when it has lasted too long; the log has it then."""
        held = self._held.get(place.partition)
        if held is None or held.who or self.held_s(place.partition) < HELD_S:
            return
        try:
            found = await bounded(self._ask(place), ASK_TIMEOUT_S)
        except Exception as error:
            who = f"its producer cannot be named: {describe_error(error)}"
        else:
            if found is None:
                return  # it has ended meanwhile
            who = str(found)
        named = HeldBack(held.stable, held.end, held.since, who)
        self._held = {**self._held, place.partition: named}
        lasts_s = self.held_s(place.partition)
        _log.warning("lane %d waits: %s", place.partition, named.describe(lasts_s))


def watching_transactions(
    current: Callable[[], Consumer], settings: KafkaSettings
) -> TransactionMonitor:
    """One that asks brokers of the settings, with a client for each question."""

    def ask(place: TopicPartition) -> Coroutine[Any, Any, object | None]:
        return first_open_transaction(client_options(settings), place)

    return TransactionMonitor(current, ask)


def _now() -> float:
    return asyncio.get_running_loop().time()
