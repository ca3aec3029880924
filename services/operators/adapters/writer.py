"""Replays and dismissals written to Kafka, each whole or not at all, by one writer at a time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import TopicPartition
from aiokafka.errors import ProducerFenced
from aiokafka.structs import RecordMetadata

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.dead_letter import Dismissed
from answerbus.envelope import REPLAY_SOURCE, Encoded, encode
from answerbus.event import Event
from answerbus.partition import Layout
from answerbus.topics import APPROVALS, DEAD_LETTERS, REQUESTS, STEPS, Topic
from answerbus.trace import Trace
from services.kafka.options import TRANSACTION_TIMEOUT_MS
from services.operators.dead_letters.prepare_replay import PreparedReplay
from services.records.resumed_steps import run_resumed

COMMIT_TIMEOUT_S = 10.0
DECIDED_TIMEOUT_S = 60.0  # a worker's transaction lasts 15 s at most, its end is noticed within 10
DECIDED_POLL_S = 0.05
CHANGES_MAX = 100  # in a transaction
RETRY_BACKOFF_MS = 20
_BATCH_BYTES = 256 * 1024
_REQUEST_BYTES_MAX = 2 * 1024 * 1024  # the broker's own limit on records is what binds


class Superseded(Exception):
    """Another writer has begun since; what this one had not committed was not done."""

    def __init__(self) -> None:
        super().__init__(
            "Another operator's replay or dismissal has begun and has ended this one. What was "
            "done so far stays done; run the same command again for the rest."
        )


@dataclass(frozen=True, slots=True)
class DeadLetterChange:
    """The action on one dead letter of `partition`; a replay continues its trace."""

    done: PreparedReplay | Dismissed
    partition: int
    trace: Trace | None = None


class Writer:
    def __init__(self, bus: Bus, producer: TransactionalProducer, layout: Layout) -> None:
        self._bus, self._producer, self._layout = bus, producer, layout

    async def commit(self, changes: Sequence[DeadLetterChange]) -> None:
        """All changes in one transaction; at most CHANGES_MAX. Raises Superseded, BusUnavailable.

        After either the writer is of no use, and whether the changes were made is known to who
        reads the dead letters to their end after opening another writer.
        """
        with self._bus.explained():
            try:
                await bounded(self._commit(changes), COMMIT_TIMEOUT_S)
            except ProducerFenced:
                raise Superseded from None

    async def _commit(self, changes: Sequence[DeadLetterChange]) -> None:
        if any(isinstance(it.done, PreparedReplay) and it.done.request.resumed for it in changes):
            await self._bus.counts(APPROVALS)  # to write to a topic that is missing may create it
        await self._producer.begin_transaction()
        sent = list[asyncio.Future[RecordMetadata]]()
        for change in changes:
            for topic, partition, record in self._records(change):
                sent.append(await self._send(topic, partition, record))
        # Each one: a record that the broker refused is otherwise missing from a transaction that
        # commits all the same.
        await asyncio.gather(*sent)
        await self._producer.commit_transaction()

    async def _send(
        self, topic: Topic, partition: int, record: Encoded
    ) -> "asyncio.Future[RecordMetadata]":
        sent: asyncio.Future[RecordMetadata] = await self._producer.send(
            topic.full_name(self._bus.prefix),
            key=record.key,
            value=record.value,
            headers=record.headers,
            partition=partition,
        )
        return sent

    def _records(self, change: DeadLetterChange) -> Iterator[tuple[Topic, int, Encoded]]:
        trace = None if change.trace is None else change.trace.headers()
        match change.done:
            case Dismissed() as dismissed:
                yield DEAD_LETTERS, change.partition, _encoded(dismissed, trace)
            case PreparedReplay(request, replayed):
                owner = self._layout.owner(request.workflow_id)
                yield REQUESTS, owner, _encoded(request, trace)
                if request.resumed:
                    resumed = run_resumed(request, request.resumed, replayed.by, replayed.at)
                    yield APPROVALS, owner, _encoded(resumed, trace)
                yield DEAD_LETTERS, change.partition, _encoded(replayed, trace)


def _encoded(event: Event, trace: Mapping[str, str] | None) -> Encoded:
    return encode(event, source=REPLAY_SOURCE, trace=trace)


@asynccontextmanager
async def writing(bus: Bus) -> AsyncIterator[Writer]:
    """The one writer: the one before is cut off, and what it left half done is undone.

    Read the dead letters to their end after entering the block, not before: only then it is certain
    that another operator cannot replay what you still find open. Raises BusUnavailable.

    A reader of committed records sees nothing behind a transaction that is still open, be it a
    worker's: what predecessors have written could be hidden there. So the block is entered when
    what is in the dead letters by now is decided.
    """
    layout = await bus.layout(REQUESTS, DEAD_LETTERS)
    producer = TransactionalProducer(
        bootstrap_servers=bus.servers,
        transactional_id=f"{bus.prefix}.replay",
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        max_batch_size=_BATCH_BYTES,
        max_request_size=_REQUEST_BYTES_MAX,
        **bus.options,
    )
    async with bus.running(producer):
        # Also the steps: a run cannot go on if one is missing.
        await _decided(bus, list(await bus.places_of(DEAD_LETTERS, *await bus.present(STEPS))))
        yield Writer(bus, producer, layout)


async def _decided(bus: Bus, places: Sequence[TopicPartition]) -> None:
    """Wait until all that was written to these places by now is committed or aborted."""
    written = bus.consumer(isolation_level="read_uncommitted")
    committed = bus.consumer()
    async with bus.running(written), bus.running(committed):
        with bus.explained():
            await bounded(_caught_up(written, committed, places), DECIDED_TIMEOUT_S)


async def _caught_up(
    written: RecordConsumer, committed: RecordConsumer, places: Sequence[TopicPartition]
) -> None:
    ends = await written.end_offsets(places)
    while await _is_behind(committed, ends):
        await asyncio.sleep(DECIDED_POLL_S)


async def _is_behind(committed: RecordConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    stable = await committed.end_offsets(list(ends))
    return any(stable[place] < end for place, end in ends.items())
