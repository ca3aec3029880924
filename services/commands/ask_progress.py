"""The progress line of `answerbus ask`: the state of the request, and the time so far."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.envelope import Undecodable
from answerbus.event import Event
from answerbus.outcome import RetryRequest
from answerbus.private.ledger import AccountRecord
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES, Topic
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.records.event_line import retry_text
from services.operators.records.stored import RetryEnded

QUEUED = "queued: waits for a worker"
NO_WORKER = "still queued: does a worker run? `answerbus doctor` says so"
NO_WORKER_AFTER_S = 10.0
IN_PLACE_S_MAX = 2.0  # longer than this no request waits for its spinner

Say = Callable[[str], None]


@asynccontextmanager
async def waiting_shown(bus: Bus, request: Request, console: Console) -> AsyncIterator[None]:
    """A spinner for as long as the block lasts, if the console is a terminal."""
    if not console.is_terminal:
        yield
        return
    description = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), TimeElapsedColumn(), description)
    with Progress(*columns, console=console, transient=True) as progress:
        row = progress.add_task(QUEUED)
        in_place = asyncio.Event()
        progress_task = asyncio.create_task(
            _tell(bus, request, in_place, lambda text: progress.update(row, description=text))
        )
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(in_place.wait(), IN_PLACE_S_MAX)
            yield
        finally:
            progress_task.cancel()
            with suppress(asyncio.CancelledError, BusUnavailable):  # it only printed progress
                await progress_task


async def _tell(bus: Bus, request: Request, in_place: asyncio.Event, say: Say) -> None:
    try:
        await _follow(bus, (RETRIES, LEDGER), request, in_place, say)
    except BusUnavailable:  # only operators have a right to the ledger
        await _follow(bus, (RETRIES,), request, in_place, say)


async def _follow(
    bus: Bus, topics: Collection[Topic], request: Request, in_place: asyncio.Event, say: Say
) -> None:
    async with reading(bus, topics, workflow_id=request.workflow_id, from_start=False) as reader:
        in_place.set()
        began, is_known = time.monotonic(), LEDGER not in topics
        async for batch in reader.follow():
            for stored in batch:
                if text := progress_text(decoded(stored).event, request):
                    is_known = True
                    say(text)
            if not is_known and time.monotonic() - began > NO_WORKER_AFTER_S:
                say(NO_WORKER)


def progress_text(event: Event | RetryEnded | Undecodable, request: Request) -> str | None:
    """What a record says of a request that is waited for; None if it is about others."""
    match event:
        case RetryRequest() if RequestKey.of(event) == RequestKey.of(request):
            return f"waits for {retry_text(event)}"
        case AccountRecord() if event.account_id == request.account_id:
            for spend in event.in_flight:
                if spend.request_id == request.request_id:
                    return f"attempt {spend.attempt}: profile {request.profile} is asked"
            if any(one.request_id == request.request_id for one in event.open):
                return "waits for its next attempt"
            return None
        case _:
            return None
