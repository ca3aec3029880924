"""The progress of a request until its outcome: published, retried, still waiting."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from answerbus.client.bus import FETCH_WAIT_MS, Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.outcome_reader import names_other_request
from answerbus.client.records.batch import Record
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.outcome import RetryRequest
from answerbus.request_key import RequestKey
from answerbus.topics import RETRIES

WAITING_INTERVAL_S = 1.0
_POLL_MS = 1_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """Where a request is in the requests topic."""

    request_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A published request has had no outcome so far; reported every second."""

    request_id: str
    waited_s: float


Progress: TypeAlias = Published | RetryRequest | Waiting
ProgressCallback: TypeAlias = Callable[[Progress], None]


@asynccontextmanager
async def retries_of(
    bus: Bus, request: RequestKey, partition: int
) -> AsyncIterator["asyncio.Queue[RetryRequest]"]:
    """The retries of a request from this moment on; none where the topic may not be read."""
    found: asyncio.Queue[RetryRequest] = asyncio.Queue()
    ready = asyncio.Event()
    task = asyncio.create_task(_read(bus, request, partition, found, ready))
    try:
        await ready.wait()
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


async def with_retries(
    outcome: "asyncio.Future[AnyOutcome]",
    request_id: str,
    retries: "asyncio.Queue[RetryRequest]",
    on_progress: ProgressCallback,
) -> AnyOutcome:
    """Wait for the outcome; report each retry, and each second without an outcome."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        retry = asyncio.create_task(retries.get())
        try:
            await asyncio.wait(
                (outcome, retry),
                timeout=WAITING_INTERVAL_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if retry.done():
                on_progress(retry.result())
            elif not outcome.done():
                on_progress(Waiting(request_id, loop.time() - began))
        finally:
            retry.cancel()
        if outcome.done() and retries.empty():
            return outcome.result()


async def _read(
    bus: Bus,
    request: RequestKey,
    partition: int,
    found: "asyncio.Queue[RetryRequest]",
    ready: asyncio.Event,
) -> None:
    place = bus.place(RETRIES, partition)
    try:
        await bus.counts(RETRIES)  # to read a topic that is missing may create it
        consumer = bus.consumer(auto_offset_reset="latest", fetch_max_wait_ms=FETCH_WAIT_MS)
        async with bus.running(consumer):
            consumer.assign([place])
            with bus.explained():
                await consumer.seek_to_end(place)
                ready.set()
                while True:
                    for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                        async for record in in_turns(records):
                            if retry := _retry_of(record, request):
                                found.put_nowait(retry)
    except BusUnavailable as error:
        _log.warning("retries of the request %s are not reported: %s", request.request_id, error)
    finally:
        ready.set()


def _retry_of(record: Record, request: RequestKey) -> RetryRequest | None:
    if isinstance(record, Unreadable) or names_other_request(record, {request}):
        return None
    event = decode(record.value, record.headers)
    if isinstance(event, RetryRequest) and RequestKey.of(event) == request:
        return event
    return None
