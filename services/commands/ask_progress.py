"""What someone sees who waits for an outcome: the time that has passed, and each retry."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.outcome import RetryRequest
from answerbus.request import Request
from answerbus.topics import RETRIES
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.records.event_line import retry_text


@asynccontextmanager
async def waiting_shown(bus: Bus, request: Request, console: Console) -> AsyncIterator[None]:
    """A spinner for as long as the block lasts, if the console is a terminal."""
    if not console.is_terminal:
        yield
        return
    description = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), TimeElapsedColumn(), description)
    with Progress(*columns, console=console, transient=True) as progress:
        row = progress.add_task(f"Waiting for request {request.request_id}")
        teller = asyncio.create_task(
            _print_retries(bus, request, lambda text: progress.update(row, description=text))
        )
        try:
            yield
        finally:
            teller.cancel()
            with suppress(asyncio.CancelledError, BusUnavailable):  # it only ever told of retries
                await teller


async def _print_retries(bus: Bus, request: Request, say: Callable[[str], None]) -> None:
    async with reading(
        bus, (RETRIES,), workflow_id=request.workflow_id, from_start=False
    ) as reader:
        async for batch in reader.follow():
            for retry in (decoded(stored).event for stored in batch):
                if isinstance(retry, RetryRequest) and retry.request_id == request.request_id:
                    say(f"Waiting for {retry_text(retry)}")
