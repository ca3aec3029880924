"""The outcomes of many requests of one workflow, by one reader: those that are there, then new."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from aiokafka import TopicPartition

from answerbus.client.bounded import ClientCancelled, was_cancelled
from answerbus.client.bus import FETCH_WAIT_MS, Bus
from answerbus.client.follow_up import root_of
from answerbus.client.outcome_reader import outcome_in, request_key_of
from answerbus.client.published_record import PublishedRecord, ends_request
from answerbus.client.records.consumer import RecordConsumer, is_behind
from answerbus.client.turns import in_turns
from answerbus.dead_letter import ConflictingId, DeadLetter
from answerbus.envelope import decode, encode
from answerbus.event import AnyOutcome
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import OUTCOMES

_POLL_MS = 1_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requests of one workflow whose outcomes are kept, with their follow-ups."""

    workflow_id: str
    requests: Mapping[str, Request]  # by their ids
    follow_ups: dict[str, Request] = field(default_factory=dict)  # those that are under way

    def __contains__(self, key: object) -> bool:
        """Whether the outcome of this request is kept."""
        return (
            isinstance(key, RequestKey)
            and key.workflow_id == self.workflow_id
            and root_of(key.request_id) in self.requests
        )

    def ends_request(self, outcome: AnyOutcome) -> bool:
        """Whether it is the outcome of one of them.

        A conflicting id ends nothing: a job may go on with another budget. Other dead letters that
        keep a record end what they are about, as in `ends_request`; one about a follow-up of an
        earlier start does not, as that is asked again.
        """
        if not isinstance(outcome, DeadLetter) or outcome.raw is None:
            return ends_request(outcome)
        request_id, is_conflict = outcome.request_id or "", isinstance(outcome.cause, ConflictingId)
        request = self.requests.get(request_id) or self.follow_ups.get(request_id)
        if request is None or is_conflict:
            return False
        return ends_request(outcome, PublishedRecord(encode(request).value))


class WorkflowOutcomes:
    """See the module; for one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}  # a fifth of what they take as events
        self._waiting: dict[str, asyncio.Future[AnyOutcome]] = {}
        self._error: BaseException | None = None

    def taken(self, request_id: str) -> AnyOutcome | None:
        """The outcome that the request has had, which is not kept any longer."""
        value = self._known.pop(request_id, None)
        return None if value is None else cast("AnyOutcome", decode(value))

    async def wait(self, request_id: str) -> AnyOutcome:
        """The outcome, once it is there; raises BusUnavailable when the reader ends."""
        if self._error is not None:
            raise self._error
        if (outcome := self.taken(request_id)) is not None:
            return outcome
        future: asyncio.Future[AnyOutcome] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        return await future

    def add(self, outcome: AnyOutcome, value: bytes) -> None:
        """Take an outcome, which a record has as its value; the first of a request counts."""
        key = request_key_of(outcome)
        if key is None:
            return
        waiter = self._waiting.pop(key.request_id, None)
        if waiter is None:
            self._known.setdefault(key.request_id, value)
        elif not waiter.done():
            waiter.set_result(outcome)

    def end(self, error: BaseException) -> None:
        """End with `error`: each that waits raises it, now and later."""
        self._error = error
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(error)
        self._waiting.clear()


@asynccontextmanager
async def workflow_outcomes(
    bus: Bus, wanted: Wanted, partitions: Collection[int], *, is_new: bool
) -> AsyncIterator[WorkflowOutcomes]:
    """Entered once all that was there is known; nothing was, where the workflow `is_new`.

    Raises BusUnavailable.
    """
    outcomes = WorkflowOutcomes()
    consumer = bus.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
    async with bus.running(consumer):
        places = bus.places(OUTCOMES, partitions)
        consumer.assign(places)
        with bus.explained():
            ends_now: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
            for place in places if is_new else ():
                consumer.seek(place, ends_now[place])
            while not is_new and await is_behind(consumer, ends_now):
                await _read(consumer, wanted, outcomes)
        task = asyncio.create_task(_follow(bus, consumer, wanted, outcomes))
        try:
            yield outcomes
        finally:
            task.cancel()
            await asyncio.wait([task])


async def _follow(
    bus: Bus, consumer: RecordConsumer, wanted: Wanted, outcomes: WorkflowOutcomes
) -> None:
    try:
        with bus.explained():
            await _read_on(consumer, wanted, outcomes)
    except Exception as error:
        _log.exception("the reader of outcomes has ended")
        outcomes.end(error)


async def _read_on(consumer: RecordConsumer, wanted: Wanted, outcomes: WorkflowOutcomes) -> None:
    try:
        while True:
            await _read(consumer, wanted, outcomes)
    except asyncio.CancelledError as error:
        if was_cancelled(error):
            raise
        raise ClientCancelled from None  # else each row waits for ever


async def _read(consumer: RecordConsumer, wanted: Wanted, outcomes: WorkflowOutcomes) -> None:
    for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
        async for record in in_turns(records):
            outcome = outcome_in(record, wanted)
            if outcome is not None and wanted.ends_request(outcome):
                outcomes.add(outcome, record.value or b"")
