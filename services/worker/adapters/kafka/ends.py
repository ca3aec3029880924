"""Asks for the end of each partition; one without an answer does not hide the others."""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error

GRACE_S = 1.0  # a partition that says nothing for so long after another has is asked by itself
NO_LEADER = "no broker leads it (LEADER_NOT_AVAILABLE)"


class EndsConsumer(Protocol):
    """The part of the group's consumer that knows about partitions."""

    def assignment(self) -> set[TopicPartition]:
        """Those that we have."""
        ...

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Those of a topic; None if it is not known."""
        ...

    def leader_of(self, place: TopicPartition) -> int | None:
        """The broker that leads a partition: -1 if none does, None if unknown."""
        ...

    def end_offsets(
        self, places: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        """Where they end."""
        ...

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
    """Ask for all together, and for each alone that is in `apart` or was not told."""
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
