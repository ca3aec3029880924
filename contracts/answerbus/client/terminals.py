"""The one reader behind all asks of a client: it hands each terminal to its waiters."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager, suppress

from aiokafka import TopicPartition

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable, decode
from answerbus.event import Terminal
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.topics import DEAD_LETTERS, REFUSALS, RESULTS

TOPICS = (RESULTS, REFUSALS, DEAD_LETTERS)
_POLL_MS = 1_000
# A broker answers the requests of a connection one by one: while a fetch waits there for records,
# finding the end of a further partition, and so the next ask, would wait with it.
_FETCH_WAIT_MS = 50

_log = logging.getLogger(__name__)


class Terminals:
    """Reads those partitions of results, refusals and dead letters in which someone waits."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: defaultdict[str, list[asyncio.Future[Terminal]]] = defaultdict(list)
        self._waiters: Counter[int] = Counter()
        self._open: set[int] = set()
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._consumer: RecordConsumer | None = None
        self._ended: BaseException | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Terminals"]:
        """Read in the background for as long as the block lasts; raises BusUnavailable."""
        partitions = (await self._bus.layout(*TOPICS)).partitions
        consumer = self._bus.consumer(auto_offset_reset="latest", fetch_max_wait_ms=_FETCH_WAIT_MS)
        async with self._bus.running(consumer):
            places = [place for p in range(partitions) for place in self._places(p)]
            consumer.assign(places)
            consumer.pause(*places)
            self._consumer = consumer
            task = asyncio.create_task(self._read(consumer), name="answerbus terminals")
            try:
                yield self
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                self._end(BusUnavailable("The client was closed while this call waited."))

    @asynccontextmanager
    async def awaiting(
        self, request_id: str, partition: int
    ) -> AsyncIterator[asyncio.Future[Terminal]]:
        """A future for the first terminal of the request from this moment on."""
        future: asyncio.Future[Terminal] = asyncio.get_running_loop().create_future()
        self._waiting[request_id].append(future)
        self._waiters[partition] += 1
        try:
            await self._follow(partition)
            yield future
        finally:
            if not future.cancel() and not future.cancelled():
                future.exception()  # looked at, so that asyncio does not report it as forgotten
            self._waiting[request_id].remove(future)
            if not self._waiting[request_id]:
                del self._waiting[request_id]
            self._waiters[partition] -= 1
            if not self._waiters[partition]:
                self._leave(partition)

    async def _follow(self, partition: int) -> None:
        async with self._locks[partition]:
            if self._ended:
                raise self._ended
            if partition in self._open or self._consumer is None:
                return
            places = self._places(partition)
            with self._bus.explained():
                if not await self._consumer.seek_to_end(*places):
                    raise TimeoutError("no answer on where the partitions end")
            self._consumer.resume(*places)
            self._open.add(partition)

    def _leave(self, partition: int) -> None:
        self._open.discard(partition)
        if self._consumer is not None and self._ended is None:
            self._consumer.pause(*self._places(partition))

    def _places(self, partition: int) -> list[TopicPartition]:
        return [self._bus.place(topic, partition) for topic in TOPICS]

    async def _read(self, consumer: RecordConsumer) -> None:
        try:
            while True:
                with self._bus.explained():
                    found = await consumer.getmany(timeout_ms=_POLL_MS)
                for records in found.values():
                    for record in records:
                        self._hand_over(record)
        except Exception as error:
            _log.exception("the reader of terminals has ended")
            self._end(error)

    def _hand_over(self, record: Record) -> None:
        terminal = terminal_of(record, self._waiting)
        if terminal is not None and terminal.request_id is not None:
            for future in self._waiting[terminal.request_id]:
                if not future.done():
                    future.set_result(terminal)

    def _end(self, error: Exception) -> None:
        self._ended = self._ended or error
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(self._ended)


def terminal_of(record: Record, request_ids: Container[str]) -> Terminal | None:
    """The terminal in a record, if it is that of one of these requests.

    The header spares reading the bodies of others; a record without it is read. What cannot be
    decoded is no terminal of anyone; the consumer has logged what cannot even be read.
    """
    if isinstance(record, Unreadable):
        return None
    for name, value in record.headers:
        if name == "ce_requestid":
            if value is not None and value.decode(errors="replace") not in request_ids:
                return None
            break
    event = decode(record.value, record.headers)
    match event:
        case Result() | UnvalidatedResult() | Refusal() | DeadLetter():
            return event if event.request_id in request_ids else None
        case Undecodable():
            _log.warning("%s-%d@%d is no event", record.topic, record.partition, record.offset)
            return None
        case _:
            return None
