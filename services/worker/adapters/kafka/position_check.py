"""Compares the ends of the requests topic's partitions with the positions of our lanes."""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error
from services.worker.adapters.kafka.read_monitor import ReadMonitor, TopicMissing
from services.worker.core.read_latency import PartitionPosition
from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.state.machine import State

TIMEOUT_S = 10.0  # the broker is asked; without it the client waits
TIMEOUT_OF_MISSING_S = 2.0  # the client asks again and again for a topic that it does not know
POSITION_TIMEOUT_S = 0.5  # it is known at once, or the consumer has yet to ask for it
SHORT_LOOKS_MIN = 2  # a leader that has just been elected may, for a moment, know of less

_log = logging.getLogger(__name__)
GRACE_S = 1.0  # a partition that says nothing for so long after another has is asked by itself
NO_LEADER = "no broker leads it (LEADER_NOT_AVAILABLE)"


class EndsConsumer(Protocol):
    """The part of the group's consumer that knows about partitions."""

    def assignment(self) -> set[TopicPartition]: ...

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Those of a topic; None if it is not known."""
        ...

    def leader_of(self, place: TopicPartition) -> int | None:
        """The broker that leads a partition: -1 if none does, None if unknown."""
        ...

    def end_offsets(
        self, places: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]: ...

    def topics(self) -> Coroutine[Any, Any, set[str]]:
        """All that there are and we may see."""
        ...

    def position(self, place: TopicPartition) -> Coroutine[Any, Any, int]:
        """From where it is read next."""
        ...


@dataclass(slots=True)
class Ends:
    """By partition: where it ends, or why there is no answer."""

    offsets: dict[int, int] = field(default_factory=dict)
    failed: dict[int, BaseException] = field(default_factory=dict)


async def ends_of(
    consumer: EndsConsumer,
    places: Collection[TopicPartition],
    apart: Collection[int],
    limit_s: float,
) -> Ends:
    """Ask for all together, and for each alone that is in `apart` or had no answer."""
    together = [place for place in places if place.partition not in apart]
    alone = [[place] for place in places if place.partition in apart]
    is_shared = len(together) > 1
    found = Ends()
    first = [together, *alone] if together else alone
    await _ask(consumer, first, GRACE_S if is_shared else limit_s, found)
    left = [[place] for place in together if place.partition not in found.offsets]
    if is_shared and left:
        await _ask(consumer, left, GRACE_S if found.offsets else limit_s, found)
    return found


def cause_of(consumer: EndsConsumer, place: TopicPartition, error: BaseException) -> str:
    """Why Kafka does not say it: the client asks for a leader again and again, and says nothing."""
    if has_no_leader(consumer, place) and isinstance(error, KafkaError | TimeoutError):
        return NO_LEADER
    return describe_error(error)


def has_no_leader(consumer: EndsConsumer, place: TopicPartition) -> bool:
    """Whether the cluster says that no broker leads the partition."""
    return consumer.leader_of(place) == -1


async def _ask(
    consumer: EndsConsumer,
    questions: Sequence[Sequence[TopicPartition]],
    limit_s: float,
    found: Ends,
) -> None:
    """Side by side, until `limit_s` have passed, or GRACE_S since the first answer."""
    now = asyncio.get_running_loop().time
    ends_at = now() + limit_s
    tasks = {
        asyncio.create_task(bounded(consumer.end_offsets(some), limit_s)): some
        for some in questions
    }
    waiting = set(tasks)
    try:
        while waiting and (left_s := ends_at - now()) > 0:
            done, waiting = await asyncio.wait(
                waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                _note(tasks[task], task, found)
            if found.offsets:
                ends_at = min(ends_at, now() + GRACE_S)
        for task in waiting:
            found.failed |= {place.partition: TimeoutError() for place in tasks[task]}
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _note(
    some: Sequence[TopicPartition], task: "asyncio.Task[dict[TopicPartition, int]]", found: Ends
) -> None:
    if error := task.exception():
        found.failed |= {place.partition: error for place in some}
        return
    for place, end in task.result().items():
        found.offsets[place.partition] = end
        found.failed.pop(place.partition, None)


class TopicRecreated(Exception):
    """The requests topic is shorter than what its lane has read: it was created again."""


async def check_positions(
    consumer: EndsConsumer,
    topic: str,
    lifecycles: Mapping[int, Lifecycle],
    read_monitor: ReadMonitor,
) -> Mapping[int, int]:
    """Where our partitions end; what lanes have not read is noted. Raises if Kafka does not answer.

    TopicMissing: Kafka says that there is no such topic. A partition of which it says nothing, as
    long as it answers for others or says that it has no leader, is noted with the cause.
    """
    began = asyncio.get_running_loop().time()
    places = consumer.assignment() or {TopicPartition(topic, 0)}
    is_known = consumer.partitions_for_topic(topic) is not None
    limit_s = TIMEOUT_S if is_known else TIMEOUT_OF_MISSING_S
    # Lanes read on while the ends are asked for: only what they had read before cannot be beyond.
    stood = {
        number: _position(lifecycle)
        for number, lifecycle in lifecycles.items()
        if lifecycle.lane.state is State.OPEN
    }
    ends = await ends_of(consumer, places, read_monitor.apart, limit_s)
    silent = [place for place in places if place.partition not in ends.offsets]
    if not ends.offsets and (error := await _why_silent(consumer, topic, silent, ends)):
        read_monitor.mark_silent({place.partition: None for place in silent}, began)
        raise error
    causes = {p.partition: cause_of(consumer, p, ends.failed[p.partition]) for p in silent}
    read_monitor.mark_silent(causes, began)
    taking = _taking(lifecycles, ends.offsets)
    found = await asyncio.gather(*(_place(consumer, topic, p, ends.offsets[p]) for p in taking))
    read_monitor.look(dict(zip(taking, found, strict=True)))
    for partition in _taking(lifecycles, ends.offsets):
        position = min(stood.get(partition, 0), _position(lifecycles[partition]))
        _check_position(lifecycles[partition], partition, position, ends.offsets, read_monitor)
    return ends.offsets


async def _why_silent(
    consumer: EndsConsumer, topic: str, silent: Sequence[TopicPartition], ends: Ends
) -> BaseException | None:
    """Why there was no answer; None where Kafka says that a partition has no leader."""
    try:
        known = await bounded(consumer.topics(), TIMEOUT_S)
    except (KafkaError, TimeoutError):
        return ends.failed[silent[0].partition]
    if topic not in known:
        return TopicMissing(
            f"the topic {topic} is missing, or there is no right to see it: create it with "
            "`answerbus topics apply`, or grant the user Describe"
        )
    is_led = not any(has_no_leader(consumer, place) for place in silent)
    return ends.failed[silent[0].partition] if is_led else None


def _taking(lifecycles: Mapping[int, Lifecycle], ends: Mapping[int, int]) -> list[int]:
    """The partitions of lanes that want records now; one that is full is paused on purpose."""
    return [
        partition
        for partition, lifecycle in lifecycles.items()
        if partition in ends
        and lifecycle.lane.state is State.OPEN
        and lifecycle.lane.backpressure.is_delivering
    ]


async def _place(consumer: EndsConsumer, topic: str, partition: int, end: int) -> PartitionPosition:
    try:
        position = consumer.position(TopicPartition(topic, partition))
        return PartitionPosition(await bounded(position, POSITION_TIMEOUT_S), end)
    except (IllegalStateError, KafkaError, TimeoutError):
        return PartitionPosition(None, end)


def _position(lifecycle: Lifecycle) -> int:
    return lifecycle.lane.lane_state.watermark.position


def _check_position(
    lifecycle: Lifecycle,
    partition: int,
    position: int,
    ends: Mapping[int, int],
    read_monitor: ReadMonitor,
) -> None:
    """A lane that is behind the end of its partition would wait there for ever."""
    if position <= ends[partition]:
        read_monitor.short_looks.pop(partition, None)
        read_monitor.from_beginning.discard(partition)
        return
    read_monitor.short_looks[partition] = read_monitor.short_looks.get(partition, 0) + 1
    if read_monitor.short_looks[partition] < SHORT_LOOKS_MIN:
        return
    _log.error(
        "lane %d had read to offset %d, and its partition ends at %d: the requests topic was made "
        "again, and is read from its beginning",
        partition,
        position,
        ends[partition],
    )
    del read_monitor.short_looks[partition]
    read_monitor.from_beginning.add(partition)
    lifecycle.lane.begin_again(TopicRecreated())
