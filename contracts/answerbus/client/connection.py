"""A client's operations on events: publish a request, wait for its outcome, find it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from aiokafka import AIOKafkaProducer

from answerbus.client.bounded import take_error
from answerbus.client.bus import Bus
from answerbus.client.controls import PublishedControl, find_effect, publish_control
from answerbus.client.errors import BusUnavailable, NoAnswerYet
from answerbus.client.follow import Followed, follow, position_now
from answerbus.client.follow_up import root_of
from answerbus.client.history import find_outcome, find_past_outcome
from answerbus.client.outcome_reader import OutcomeReader
from answerbus.client.progress import ProgressCallback, Published, retries_of, with_retries
from answerbus.client.published_record import PublishedRecord
from answerbus.client.request_id import PublishedIds
from answerbus.client.workflow_outcomes import Wanted, WorkflowOutcomes, workflow_outcomes
from answerbus.control import Approval, Cancel, ControlApplied, Input
from answerbus.envelope import CLIENT_SOURCE, Encoded, Undecodable, decode_request, encode
from answerbus.event import AnyOutcome
from answerbus.explain import problems_text
from answerbus.limits import REQUEST_BYTES_MAX
from answerbus.partition import Layout
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import REQUESTS
from answerbus.trace import Trace

BACKGROUND_END_S = 5.0  # for background tasks to end when a client is closed
PUBLISH_S_MIN = 5.0  # for Kafka to take a request, even if its outcome is awaited for less
CONFLICT_S = 1.0  # in which a worker reports that the id was used with another body

_log = logging.getLogger(__name__)


class BusConnection:
    """One producer, and one reader of outcomes from the first wait on; use it with `async with`.

    Every method raises BusUnavailable if Kafka or a topic cannot be used.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stack, self._reading = AsyncExitStack(), AsyncExitStack()
        self._starting: asyncio.Task[OutcomeReader] | None = None
        self._producer: AIOKafkaProducer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader: OutcomeReader | None = None
        self._layout = Layout(1)
        self._looks = set[asyncio.Task[None]]()
        self._published = PublishedIds()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._layout = await self._bus.layout(REQUESTS)
        producer = self._bus.running(self._bus.producer())
        self._producer = await self._stack.enter_async_context(producer)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._producer = None
        try:
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.wait([self._starting], timeout=BACKGROUND_END_S)
        finally:
            self._reader = self._starting = None
            try:
                await self._reading.aclose()
            finally:
                await self._stack.aclose()
        if self._looks:
            await asyncio.wait(self._looks, timeout=BACKGROUND_END_S)

    @property
    def principal(self) -> str:
        """See `Bus.principal`."""
        return self._bus.principal

    async def publish(self, request: Request, trace: Trace | None = None) -> Published:
        """See `Client.publish`."""
        return await self._publish(request, request_record(request, trace))

    async def _publish(self, request: Request, record: Encoded) -> Published:
        producer = self._open_here()
        self._published.add(RequestKey.of(request))
        place = self._bus.place(REQUESTS, self._layout.owner(request.workflow_id))
        with self._bus.explained():
            sent = await producer.send_and_wait(
                place.topic, record.value, record.key, place.partition, headers=record.headers
            )
        return Published(request.request_id, sent.partition, sent.offset)

    async def ask(
        self,
        request: Request,
        timeout_s: float | None,
        trace: Trace | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> AnyOutcome:
        """Publish, and wait for the outcome; raises NoAnswerYet.

        A request that was asked before may have had its outcome: it is looked for meanwhile. A
        follow-up that was published before with other words of its validator goes on.
        """
        record = request_record(request, trace)
        limit = asyncio.timeout(None if timeout_s is None else max(timeout_s, PUBLISH_S_MIN))
        asked = _Asked(request, record, limit, timeout_s)
        try:
            async with limit:
                return await self._outcome(asked, on_progress)
        except TimeoutError:
            if not limit.expired():  # a progress callback raised it
                raise
            if asked.is_published:
                raise NoAnswerYet(request.request_id, request.workflow_id, timeout_s) from None
            raise BusUnavailable(
                f"Kafka at {self._bus.servers} has not confirmed request "
                f"{root_of(request.request_id)!r} of workflow {request.workflow_id!r} in time. It "
                "may be published: ask again with these ids, and it is paid for once."
            ) from None

    async def _outcome(self, asked: "_Asked", on_progress: ProgressCallback | None) -> AnyOutcome:
        request, key = asked.request, RequestKey.of(asked.request)
        own = PublishedRecord(asked.record.value, self._published.is_first(key, _now_ms()))
        reader = await self._started_reader()
        partition = self._layout.owner(request.workflow_id)
        async with reader.awaiting(key, partition, own) as future:
            self._start_look_back(request, own, future)
            if on_progress is None:
                await self._publish_asked(asked)
                return await future
            async with retries_of(self._bus, key, partition) as retries:
                on_progress(await self._publish_asked(asked))
                outcome = await with_retries(future, request.request_id, retries, on_progress)
                asked.limit.reschedule(None)  # it is there, however long the rest takes
                return outcome

    async def _publish_asked(self, asked: "_Asked") -> Published:
        published = await self._publish(asked.request, asked.record)
        asked.is_published = True
        if asked.timeout_s is not None:
            asked.limit.reschedule(asyncio.get_running_loop().time() + asked.timeout_s)
        return published

    def _start_look_back(
        self, request: Request, own: PublishedRecord, future: "asyncio.Future[AnyOutcome]"
    ) -> None:
        """In a task that ends by itself: a client of Kafka that is cut off leaves connections."""
        if not own.has_new_id:
            task = asyncio.create_task(self._look_back(request, own, future))
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)

    async def _look_back(
        self,
        request: Request,
        own: PublishedRecord,
        future: "asyncio.Future[AnyOutcome]",
    ) -> None:
        homes = self._layout.homes(request.workflow_id)
        try:
            found = await find_past_outcome(
                self._bus, RequestKey.of(request), own, homes, _now_ms(), is_enough=future.done
            )
        except BusUnavailable as error:
            _log.warning("no look at earlier outcomes of %s: %s", request.request_id, error)
            return
        if found is not None and not future.done():
            if not own.has_digest_of(found):
                await asyncio.wait([future], timeout=CONFLICT_S)
            if not future.done():
                future.set_result(found)

    async def find(
        self,
        request_id: str,
        workflow_id: str,
        timeout_s: float | None,
        request: Request | None = None,
    ) -> AnyOutcome:
        """The first outcome since the start of retention, or a later one; raises NoAnswerYet."""
        self._open()
        try:
            async with asyncio.timeout(timeout_s):
                homes, key = self._layout.homes(workflow_id), RequestKey(workflow_id, request_id)
                return await find_outcome(self._bus, key, homes, published_record(request))
        except TimeoutError:
            raise NoAnswerYet(request_id, workflow_id, timeout_s) from None

    def outcomes_of(
        self, wanted: Wanted, *, is_new: bool
    ) -> AbstractAsyncContextManager[WorkflowOutcomes]:
        """The outcomes of many requests of one workflow; see `workflow_outcomes`."""
        self._open()
        homes = self._layout.homes(wanted.workflow_id)
        return workflow_outcomes(self._bus, wanted, homes, is_new=is_new)

    def follow(
        self,
        request_id: str,
        workflow_id: str,
        after: str | None,
        since: datetime | None,
        request: Request | None,
    ) -> AsyncIterator[Followed]:
        """See `Client.follow`."""
        self._open()
        key, homes = RequestKey(workflow_id, request_id), self._layout.homes(workflow_id)
        return follow(self._bus, key, homes, after, since, published_record(request))

    async def position(self, workflow_id: str) -> str:
        """See `Client.position`."""
        self._open()
        return await position_now(self._bus, self._layout.homes(workflow_id))

    async def control(self, control: Approval | Input | Cancel) -> PublishedControl:
        """Publish an approval or a cancellation. Raises as `Client.cancel` does."""
        return await publish_control(self._bus, self._open_here(), self._layout, control)

    async def effect_of(
        self, published: PublishedControl, timeout_s: float | None
    ) -> ControlApplied | None:
        """The effect of the control; None if it is not known in time."""
        self._open()
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await find_effect(self._bus, self._layout, published)
        except TimeoutError:
            if not limit.expired():
                raise
            return None

    async def _started_reader(self) -> OutcomeReader:
        """The reader that is there, or a new one.

        A client of Kafka whose start is cut off leaves connections: the start outlasts an ask, and
        the next ask has its reader.
        """
        self._open_here()
        if self._reader is not None and not self._reader.has_ended:
            return self._reader
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_reader())
            self._starting.add_done_callback(take_error)
        starting = self._starting
        await asyncio.wait([starting])
        if starting.cancelled():
            raise BusUnavailable("The client was closed while this call waited.")
        return starting.result()

    async def _start_reader(self) -> OutcomeReader:
        await self._reading.aclose()
        reader = OutcomeReader(self._bus).running()
        self._reader = await self._reading.enter_async_context(reader)
        return self._reader

    def _open(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("A Client is used inside of `async with Client(...) as client:`.")
        return self._producer

    def _open_here(self) -> AIOKafkaProducer:
        """The producer. Raises RuntimeError in another event loop, where a call would never end."""
        producer = self._open()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "The client was opened in another event loop: open one in each, or use a "
                "SyncClient, which threads may share."
            )
        return producer


def request_record(request: Request, trace: Trace | None) -> Encoded:
    """The record of a request; raises ValueError if no worker could read it."""
    headers = None if trace is None else trace.headers()
    record = encode(request, source=CLIENT_SOURCE, trace=headers)
    if len(record.value) > REQUEST_BYTES_MAX:
        raise ValueError(
            f"The request has {len(record.value):,} bytes of at most {REQUEST_BYTES_MAX:,}."
        )
    read = decode_request(record.value)
    if isinstance(read, Undecodable):  # its dead letter might name no id, and no ask would end
        is_named = b"NaN" in record.value or b"Infinity" in record.value
        hint = ". JSON has neither NaN nor Infinity" if is_named else ""
        text = f"{problems_text(read.problems)}{hint}"
        raise ValueError(f"No worker can read the request: {text}.")  # noqa: TRY004
    return record


def published_record(request: Request | None) -> PublishedRecord | None:
    """The record of a request that a client published."""
    return None if request is None else PublishedRecord(encode(request).value)


@dataclass(slots=True)
class _Asked:
    """A request under way, whose limit begins again once it is published."""

    request: Request
    record: Encoded
    limit: asyncio.Timeout
    timeout_s: float | None
    is_published: bool = False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
