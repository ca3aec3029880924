"""A request has its own outcome, also where others publish under its id."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import LeaderNotAvailableError

from answerbus.cause import UndecodableCause
from answerbus.client import connection
from answerbus.client.bus import Bus
from answerbus.client.connection import CONFLICT_S, BusConnection
from answerbus.client.follow import follow
from answerbus.client.history import find_outcome, find_past_outcome
from answerbus.client.published_record import PublishedRecord
from answerbus.dead_letter import ConflictingId, Raw
from answerbus.envelope import encode
from answerbus.event import AnyOutcome, Event
from answerbus.failure import Problem
from answerbus.partition import Layout
from answerbus.request_key import RequestKey
from answerbus.topics import TOPIC_OF_KIND
from answerbus.wire import bytes_digest
from tests.contracts.client.test_brokers_apart import LIMIT_S, REQUEST, OneBus
from tests.integration.answering import dead_letter, result
from tests.unit.operators.runs.events import call, step
from tests.unit.worker.lane.virtual import on_virtual_time

KEY = RequestKey("w", "r")
OWN = PublishedRecord(encode(REQUEST).value)
OTHER = PublishedRecord(OWN.value + b" ")  # the same body in another record
PROBLEM = Problem(path="", code="missing", expected="a request", found="nothing")
RECORD = dead_letter(REQUEST).model_copy(
    update={
        "cause": UndecodableCause(problems=(PROBLEM,)),
        "request": None,
        "raw": Raw(base64="", bytes=0, digest=bytes_digest(OWN.value), truncated=False),
    }
)
CONFLICT = RECORD.model_copy(update={"cause": ConflictingId()})
ANSWER = result(REQUEST, "said")
STEP = step("r", 1, call("r", 1), workflow_id="w")


class Consumer:
    """Gives one event at a time, in this order."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        self._left = [(_place(event), event) for event in events]
        self._ends = Counter(place for place, _ in self._left)
        self._at = Counter[TopicPartition]()

    def assign(self, places: object) -> None: ...

    def seek(self, place: TopicPartition, offset: int) -> None: ...

    async def position(self, place: TopicPartition) -> int:
        return self._at[place]

    async def end_offsets(self, places: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: self._ends[place] for place in places}

    high_watermarks = end_offsets

    async def getmany(self, **_: Any) -> Mapping[TopicPartition, list[ConsumerRecord]]:
        await asyncio.sleep(0)
        if not self._left:
            return {}
        place, event = self._left.pop(0)
        record = encode(event)
        value, headers = record.value, tuple(record.headers)
        offset, self._at[place] = self._at[place], self._at[place] + 1
        return {place: [ConsumerRecord(*place, offset, 0, 1, None, value, None, 0, 1, headers)]}


def _place(event: Event) -> TopicPartition:
    return TopicPartition(TOPIC_OF_KIND[event.kind].full_name("answerbus"), 0)


def _bus(*events: Event) -> Bus:
    consumer: Any = Consumer(events)
    return OneBus("there:9092", "answerbus", {}).read_by(consumer)


@pytest.mark.parametrize(
    ("events", "outcome"),
    [((RECORD, ANSWER), ANSWER), ((ANSWER, RECORD), ANSWER), ((RECORD,), RECORD)],
    ids=["repaired", "another record", "not repaired"],
)
async def test_the_outcome_is_that_of_the_request_where_there_is_one(
    events: tuple[Event, ...], outcome: Event
) -> None:
    async with asyncio.timeout(LIMIT_S):
        assert await find_outcome(_bus(*events), KEY, [0]) == outcome
        assert await _followed(*events) == [outcome]


async def test_an_outcome_is_found_while_a_partition_of_others_has_no_leader() -> None:
    class WithoutLeader(Consumer):
        async def end_offsets(self, places: list[TopicPartition]) -> Mapping[TopicPartition, int]:
            raise LeaderNotAvailableError

    consumer: Any = WithoutLeader((ANSWER,))
    bus = OneBus("there:9092", "answerbus", {}).read_by(consumer)

    assert await find_outcome(bus, KEY, [0]) == ANSWER


@pytest.mark.parametrize(
    ("own", "outcome"),
    [(OTHER, ANSWER), (OWN, RECORD), (None, RECORD)],
    ids=["another record", "invalid", "unknown"],
)
async def test_a_known_request_waits_for_its_own_outcome(
    own: PublishedRecord | None, outcome: Event
) -> None:
    class OneAfterTheOther(Consumer):
        async def end_offsets(self, places: list[TopicPartition]) -> Mapping[Any, int]:
            return {place: self._at[place] for place in places}

    consumer: Any = OneAfterTheOther((RECORD, ANSWER))
    bus = OneBus("there:9092", "answerbus", {}).read_by(consumer)
    async with asyncio.timeout(LIMIT_S):
        assert await find_outcome(bus, KEY, [0], own) == outcome


async def test_a_run_is_followed_on_after_an_invalid_record_under_its_id() -> None:
    for events in ((RECORD, STEP, ANSWER), (STEP, RECORD, ANSWER)):
        assert await _followed(*events) == [STEP, ANSWER]


@pytest.mark.parametrize(
    ("events", "own", "followed"),
    [
        ((RECORD, STEP, ANSWER), OTHER, [STEP, ANSWER]),
        ((RECORD,), OWN, [RECORD]),
        ((STEP, CONFLICT, ANSWER), OWN, [STEP, CONFLICT]),
        ((STEP, CONFLICT, ANSWER), OTHER, [STEP, ANSWER]),
    ],
    ids=["another record", "invalid", "conflict", "another conflict"],
)
async def test_what_was_asked_is_followed_whatever_others_publish_under_its_id(
    events: tuple[Event, ...], own: PublishedRecord, followed: list[Event]
) -> None:
    class OneAfterTheOther(Consumer):
        async def high_watermarks(self, places: list[TopicPartition]) -> Mapping[Any, int]:
            return {place: self._at[place] for place in places}

    consumer: Any = OneAfterTheOther(events)
    bus = OneBus("there:9092", "answerbus", {}).read_by(consumer)
    async with asyncio.timeout(LIMIT_S):
        found = [it.event async for it in follow(bus, KEY, [0], None, None, own)]
    assert found == followed


async def _followed(*events: Event) -> list[Event]:
    async with asyncio.timeout(LIMIT_S):
        return [it.event async for it in follow(_bus(*events), KEY, [0], None, None)]


@pytest.mark.parametrize("is_own", [True, False])
async def test_the_outcome_of_another_question_is_no_past_outcome(*, is_own: bool) -> None:
    class Past(Consumer):
        async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[Any, Any]:
            return dict.fromkeys(times, SimpleNamespace(offset=0))

        async def getmany(self, *_: Any, **__: Any) -> Mapping[Any, list[ConsumerRecord]]:
            return await super().getmany()

    found = ANSWER if is_own else ANSWER.model_copy(update={"body_digest": bytes_digest(b"other")})
    consumer: Any = Past((found,))
    bus = OneBus("there:9092", "answerbus", {}).read_by(consumer)
    async with asyncio.timeout(LIMIT_S):
        past = await find_past_outcome(bus, KEY, OWN, [0], 10**12, lambda: False)

    assert past == (ANSWER if is_own else None)


@pytest.mark.parametrize(
    ("named", "waits_s"),
    [(ANSWER.body_digest, 0), (None, CONFLICT_S)],
    ids=["of its own", "of none"],
)
@on_virtual_time
async def test_only_an_outcome_that_names_no_body_waits_for_a_conflict(
    named: str | None, waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = ANSWER.model_copy(update={"body_digest": named})

    async def found(*_: object, **__: object) -> AnyOutcome:
        return past

    monkeypatch.setattr(connection, "find_past_outcome", found)
    loop = asyncio.get_running_loop()
    future, began = loop.create_future(), loop.time()
    of: Any = SimpleNamespace(_layout=Layout(1), _bus=None)
    await BusConnection._look_back(of, REQUEST, OWN, future)

    assert (future.result(), loop.time() - began) == (past, waits_s)
