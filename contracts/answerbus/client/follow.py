"""The events of one run as they arrive: steps, ends of calls, approvals, and its outcome.

Each carries a position, from which another process can go on.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from aiokafka import TopicPartition

from answerbus.call_id import request_of_call
from answerbus.client.bus import FETCH_WAIT_MS, Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.outcome_reader import names_other_request, outcome_for
from answerbus.client.positions import FOLLOWED_TOPICS, Offsets, offsets_of, position_of
from answerbus.client.published_record import PublishedRecord, is_of_record
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer, is_behind
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.control import (
    Approval,
    ApprovalRequested,
    Cancel,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.request_key import RequestKey
from answerbus.step import Step, ToolEnded
from answerbus.topics import STEPS

StepEvent: TypeAlias = Step | ToolEnded | ApprovalRequested | InputRequested | ControlApplied
FollowedEvent: TypeAlias = StepEvent | AnyOutcome

_POLL_MS = 1_000


@dataclass(frozen=True, slots=True)
class Followed:
    """An event of a run, and the position from which `Client.follow` goes on after it."""

    event: FollowedEvent
    position: str


async def follow(
    bus: Bus,
    request: RequestKey,
    partitions: Collection[int],
    after: str | None,
    since: datetime | None,
    own: PublishedRecord | None = None,
) -> AsyncIterator[Followed]:
    """What the run does, up to its outcome, which comes last. Raises ValueError, BusUnavailable.

    `own` is the record that was published, where it is known: see `ends_request`.
    The position of the outcome is its own offset: a reader that goes on from there gets it again.
    """
    given = {} if after is None else offsets_of(after)
    await bus.counts(*FOLLOWED_TOPICS)  # to read a topic that is missing may create it
    consumer = bus.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
    async with bus.running(consumer):
        places = _places(bus, partitions)
        consumer.assign(list(places))
        with bus.explained():
            offsets = await _start(consumer, places, given, since)
        run = _Run(bus, consumer, request, own, places, offsets)
        async for followed in run.events():
            yield followed


async def position_now(bus: Bus, partitions: Collection[int]) -> str:
    """The position behind all that is there by now. Raises BusUnavailable."""
    await bus.counts(*FOLLOWED_TOPICS)
    places = _places(bus, partitions)
    consumer = bus.consumer(fetch_max_wait_ms=FETCH_WAIT_MS)
    async with bus.running(consumer):
        with bus.explained():
            ends = await consumer.end_offsets(list(places))
    return position_of({places[place]: end for place, end in ends.items()})


def _places(bus: Bus, partitions: Collection[int]) -> Mapping[TopicPartition, tuple[str, int]]:
    """Each partition that is read, with the name that positions have for it."""
    return {
        bus.place(topic, number): (topic.name, number)
        for topic in FOLLOWED_TOPICS
        for number in partitions
    }


async def _start(
    consumer: RecordConsumer,
    places: Mapping[TopicPartition, tuple[str, int]],
    given: Offsets,
    since: datetime | None,
) -> Offsets:
    """Go to where reading begins: after a position, at a moment, or at the start of retention."""
    offsets = {name: given.get(name, 0) for name in places.values()}
    open_places = [place for place, name in places.items() if name not in given]
    if since is not None and open_places:
        at_ms = max(int(since.timestamp() * 1000), 0)  # Kafka has no earlier times
        ends = await consumer.end_offsets(open_places)  # first: what comes meanwhile is there
        found = await consumer.offsets_for_times(dict.fromkeys(open_places, at_ms))
        for place in open_places:
            offsets[places[place]] = found[place].offset if found.get(place) else ends[place]
    for place, name in places.items():
        consumer.seek(place, offsets[name])
    return offsets


class _Run:
    def __init__(
        self,
        bus: Bus,
        consumer: RecordConsumer,
        request: RequestKey,
        own: PublishedRecord | None,
        places: Mapping[TopicPartition, tuple[str, int]],
        offsets: Offsets,
    ) -> None:
        self._bus, self._consumer = bus, consumer
        self._request, self._own = request, own
        self._places, self._offsets = places, offsets
        self._outcome: AnyOutcome | None = None
        self._has_begun = False

    async def events(self) -> AsyncIterator[Followed]:
        """What comes, and once the outcome is there, the steps that were written before it."""
        ends: dict[TopicPartition, int] | None = None
        found_before: AnyOutcome | None = None
        while ends is None or await self._is_behind(ends):
            with self._bus.explained():
                found = await self._consumer.getmany(timeout_ms=_POLL_MS)
            for place in sorted(found, key=list(self._places).index):
                async for record in in_turns(found[place]):
                    if (event := self._take(place, record)) is not None:
                        yield Followed(event, position_of(self._offsets))
            if self._outcome is not found_before:  # that of a record may give way to another
                ends, found_before = None, self._outcome
            if self._outcome is not None and ends is None:
                ends = await self._ends_of(self._awaited(self._outcome))
        if self._outcome is not None:
            yield Followed(self._outcome, position_of(self._offsets))

    def _awaited(self, outcome: AnyOutcome) -> list[TopicPartition]:
        """The partitions to read to their ends; another outcome may follow one of a record."""
        is_last = not is_of_record(outcome)
        return [at for at, (topic, _) in self._places.items() if topic == STEPS.name or not is_last]

    def _take(self, place: TopicPartition, record: Record) -> StepEvent | None:
        """A step, if the record is one; an outcome is kept, and its topic not read any further."""
        topic, number = self._places[place]
        if topic == STEPS.name:
            self._offsets[topic, number] = _after(record)
            event = step_event_of(record, self._request)
            self._has_begun |= event is not None and not isinstance(event, ControlApplied)
            if self._has_begun and self._outcome is not None and is_of_record(self._outcome):
                self._outcome = None  # an invalid record under the id of the run
            return event
        if self._outcome is None or is_of_record(self._outcome):
            found = outcome_for(record, self._request, self._own)
            if found is not None and is_of_record(found) and (self._has_begun or self._outcome):
                found = None
            if found is None and self._outcome is None:
                self._offsets[topic, number] = _after(record)
            self._outcome = found or self._outcome
        return None

    async def _ends_of(self, steps: list[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Where steps end; None while a leader is away, to be asked again after the next poll."""
        try:
            with self._bus.explained():
                return await self._consumer.high_watermarks(steps)
        except BusUnavailable as error:
            if getattr(error.__cause__, "retriable", False):
                return None
            raise

    async def _is_behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        with self._bus.explained():
            return await is_behind(self._consumer, ends)


def _after(record: Record) -> int:
    return int(record.end if isinstance(record, Unreadable) else record.offset + 1)


def step_event_of(record: Record, request: RequestKey) -> StepEvent | None:
    """The event about the run in a record of the steps; None for those of others."""
    if isinstance(record, Unreadable) or names_other_request(record, {request}):
        return None
    event = decode(record.value, record.headers)
    match event:
        case Step() | ToolEnded() | ApprovalRequested() | InputRequested():
            return event if RequestKey.of(event) == request else None
        case ControlApplied():
            return event if _concerns(event, request) else None
        case _:
            return None


def _concerns(applied: ControlApplied, request: RequestKey) -> bool:
    if applied.workflow_id != request.workflow_id:
        return False
    if request.request_id in applied.requests:
        return True
    match applied.control:
        case Approval(call_id=call_id) | Input(call_id=call_id):
            return request_of_call(call_id) == request.request_id
        case Cancel() as cancel:
            return cancel.request_id == request.request_id
