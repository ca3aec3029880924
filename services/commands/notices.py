"""Notices about an awaited request: how far it is, that no worker takes it, Kafka is away."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from answerbus.client.bounded import take_error
from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.envelope import Undecodable
from answerbus.event import Event
from answerbus.outcome import RetryRequest
from answerbus.private.ledger import AccountRecord
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RESULTS, RETRIES, Topic
from services.commands.kafka_away import KafkaAway
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.records.event_line import retry_text
from services.operators.records.stored import RetryEnded

NO_WORKER = "still queued: does a worker run? `answerbus doctor` says so"
NO_WORKER_AFTER_S = 10.0
IN_PLACE_S_MAX = 2.0  # longer than this no request waits for its notices

_READABLE = ((RETRIES, LEDGER), (RETRIES,), (RESULTS,))  # by operators, some apps, and all who ask


@dataclass(slots=True)
class Notices:
    """From a reader of its own; that no worker takes a request, only those who read the ledger."""

    bus: Bus
    request: Request
    say: Callable[[str], None]
    has_progress: bool = True  # a run shows its own
    is_taken: bool = False  # by a worker
    in_place: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def given(self) -> AsyncIterator[None]:
        """For as long as the block lasts; also a failure of them takes the place of no outcome."""
        task = asyncio.create_task(self._give())
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.in_place.wait(), IN_PLACE_S_MAX)
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            take_error(task)

    async def _give(self) -> None:
        for topics in _READABLE:
            with suppress(BusUnavailable):
                await self._follow(topics)
                return

    async def _follow(self, topics: Collection[Topic]) -> None:
        workflow_id = self.request.workflow_id
        async with reading(self.bus, topics, workflow_id=workflow_id, from_start=False) as reader:
            self.in_place.set()
            began, is_said = time.monotonic(), False
            away = KafkaAway(str(self.bus.servers), self.say)
            async for batch in reader.follow():
                away.look(is_connected=reader.is_connected)
                for stored in batch:
                    if text := progress_text(decoded(stored).event, self.request):
                        self.is_taken = True
                        if self.has_progress:
                            self.say(text)
                is_late = time.monotonic() - began > NO_WORKER_AFTER_S
                is_queued = is_late and LEDGER in topics and not self.is_taken
                if is_queued and reader.is_connected and not is_said:
                    self.say(NO_WORKER)
                is_said = is_queued and reader.is_connected  # and again once Kafka is back


def progress_text(event: Event | RetryEnded | Undecodable, request: Request) -> str | None:
    """The event of an awaited request in a record; None if it is about others."""
    match event:
        case RetryRequest() if RequestKey.of(event) == RequestKey.of(request):
            return f"waits for {retry_text(event)}"
        case AccountRecord() if event.account_id == request.account_id:
            for spend in event.in_flight:
                if spend.request_id == request.request_id:
                    return f"attempt {spend.attempt} is under way for profile {request.profile}"
            if any(one.request_id == request.request_id for one in event.open):
                return "waits for its next attempt"
            return None
        case _:
            return None
