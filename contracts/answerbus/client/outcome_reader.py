"""The one reader behind all asks of a client: it gives each outcome to those that wait for it."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Container
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiokafka import ConsumerRecord

from answerbus.client.bounded import bounded, was_cancelled
from answerbus.client.bus import FETCH_WAIT_MS, Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.published_record import PublishedRecord, ends_request
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable, decode
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request_key import RequestKey
from answerbus.topics import OUTCOMES

SEEK_TIMEOUT_S = 30.0  # to learn where partitions end
_POLL_MS = 1_000

_log = logging.getLogger(__name__)


class OutcomeReader:
    """Reads those partitions of results, refusals and dead letters that an ask waits in."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiters: defaultdict[RequestKey, list[_Waiter]] = defaultdict(list)
        self._waiters_in: Counter[int] = Counter()  # each partition
        self._resumed: set[int] = set()  # partitions; the others are paused
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._consumer: RecordConsumer | None = None
        self._ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["OutcomeReader"]:
        """Read in the background for as long as the block lasts; raises BusUnavailable."""
        partitions = (await self._bus.layout(*OUTCOMES)).partitions
        consumer = self._bus.consumer(auto_offset_reset="latest", fetch_max_wait_ms=FETCH_WAIT_MS)
        async with self._bus.running(consumer):
            places = self._bus.places(OUTCOMES, range(partitions))
            consumer.assign(places)
            consumer.pause(*places)
            self._consumer = consumer
            task = asyncio.create_task(self._read(consumer), name="answerbus outcomes")
            try:
                yield self
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                self._fail_waiters(BusUnavailable("The client was closed while this call waited."))

    @property
    def has_ended(self) -> bool:
        """Whether an error has ended it; each waiter got that error."""
        return self._ended.done()

    @asynccontextmanager
    async def awaiting(
        self, request: RequestKey, partition: int, own: PublishedRecord
    ) -> AsyncIterator[asyncio.Future[AnyOutcome]]:
        """A future for the outcome of the request from this moment on; see `ends_request`."""
        future: asyncio.Future[AnyOutcome] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(future, own)
        self._waiters[request].append(waiter)
        self._waiters_in[partition] += 1
        try:
            await self._resume(partition)
            yield future
        finally:
            if not future.cancel() and not future.cancelled():
                future.exception()  # so that asyncio does not report it as never retrieved
            self._waiters[request].remove(waiter)
            if not self._waiters[request]:
                del self._waiters[request]
            self._waiters_in[partition] -= 1
            if not self._waiters_in[partition]:
                self._pause(partition)

    async def _resume(self, partition: int) -> None:
        async with self._locks[partition]:
            self._raise_if_ended()
            if partition in self._resumed or self._consumer is None:
                return
            places = self._bus.places(OUTCOMES, [partition])
            with self._bus.explained():
                seeking = self._consumer.seek_to_end(*places)
                if not await bounded(seeking, SEEK_TIMEOUT_S, self._wait_unless_ended):
                    raise TimeoutError("no answer on where the partitions end")
            self._consumer.resume(*places)
            self._resumed.add(partition)

    async def _wait_unless_ended(
        self, tasks: "Collection[asyncio.Task[Any]]", limit_s: float
    ) -> None:
        """A consumer that is closed meanwhile may keep waiting for an answer, or raise anything."""
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait([*tasks, self._ended], timeout=limit_s, return_when=first)
        self._raise_if_ended()

    def _raise_if_ended(self) -> None:
        if self._ended.done():
            raise self._ended.result()

    def _pause(self, partition: int) -> None:
        self._resumed.discard(partition)
        if self._consumer is not None and not self.has_ended:
            self._consumer.pause(*self._bus.places(OUTCOMES, [partition]))

    async def _read(self, consumer: RecordConsumer) -> None:
        try:
            while True:
                with self._bus.explained():
                    found = await consumer.getmany(timeout_ms=_POLL_MS)
                for records in found.values():
                    async for record in in_turns(records):
                        self._deliver(record)
        except BaseException as error:
            if was_cancelled(error):
                raise
            _log.exception("the reader of outcomes has ended")
            cancelled = f"Kafka at {self._bus.servers} cannot be used: its client cancelled itself."
            self._fail_waiters(error if isinstance(error, Exception) else BusUnavailable(cancelled))

    def _deliver(self, record: Record) -> None:
        outcome = outcome_in(record, self._waiters)
        request = request_key_of(outcome) if outcome is not None else None
        if outcome is not None and request is not None:
            for waiter in self._waiters[request]:
                if not waiter.outcome.done() and ends_request(outcome, waiter.own):
                    waiter.outcome.set_result(outcome)

    def _fail_waiters(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_result(error)
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.outcome.done():
                    waiter.outcome.set_exception(self._ended.result())


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    outcome: asyncio.Future[AnyOutcome]
    own: PublishedRecord


def outcome_in(record: Record, requests: Container[RequestKey]) -> AnyOutcome | None:
    """The outcome in a record, if it is that of one of these requests.

    Headers that name another request save decoding the body. An undecodable record is logged here,
    an unreadable one by the consumer.
    """
    if isinstance(record, Unreadable) or names_other_request(record, requests):
        return None
    event = decode(record.value, record.headers)
    match event:
        case Result() | UnvalidatedResult() | Refusal() | DeadLetter():
            return event if request_key_of(event) in requests else None
        case Undecodable():
            place = (record.topic, record.partition, record.offset)
            _log.warning("%s-%d@%d is not a valid event", *place)
            return None
        case _:
            return None


def outcome_for(
    record: Record, request: RequestKey, own: PublishedRecord | None = None
) -> AnyOutcome | None:
    """The outcome of the request; see `ends_request`."""
    outcome = outcome_in(record, {request})
    return outcome if outcome is not None and ends_request(outcome, own) else None


def request_key_of(outcome: AnyOutcome) -> RequestKey | None:
    """The request that an outcome names; a dead letter may name none, or no workflow."""
    if outcome.request_id is None or outcome.workflow_id is None:
        return None
    return RequestKey(outcome.workflow_id, outcome.request_id)


def names_other_request(record: ConsumerRecord, requests: Container[RequestKey]) -> bool:
    """Whether the headers of a record name another request; False where they do not say."""
    headers = dict(reversed(record.headers))  # the first of a name counts
    workflow, request = headers.get("ce_subject"), headers.get("ce_requestid")
    if workflow is None or request is None:
        return False
    named = RequestKey(workflow.decode(errors="replace"), request.decode(errors="replace"))
    return named not in requests
