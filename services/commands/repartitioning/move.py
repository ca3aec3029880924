"""The move itself: grow the topics, shut the lanes, move their records, open them again."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bounded import bounded
from answerbus.client.bus import START_TIMEOUT_S, Bus
from answerbus.partition import Layout
from answerbus.private.ledger import LaneRecord
from answerbus.topics import (
    CONTROLS,
    LEASES,
    LEDGER,
    REQUESTS,
    RETRIES,
    RUN_TOPICS,
    RUNS,
    TOPICS,
    Topic,
)
from services.commands.private_records import hidden_runs
from services.commands.repartitioning.planning.contents import (
    WRITER,
    Lanes,
    PartitionContents,
    UnreadableRecord,
    begun_records,
    done_records,
    forwarded,
    open_requests,
    unread_cancels,
)
from services.kafka.topics import topics_on
from services.kafka.worker_groups import members_of
from services.operators.adapters.reader import Reader, reading
from services.operators.records.stored import Stored
from services.settings.settings import SetUpError
from services.text.counted import count_text
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka.arrivals import arrival
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.ports.kafka import OutRecord

CHUNK_RECORDS = 200  # in a transaction, each with the record that ends it in its former place
CHUNK_BYTES = 4 * 1024 * 1024
COMMIT_TIMEOUT_S = 30.0
OPEN_RUNS_SHOWN = 5
_POLL_MS = 500

Now = Callable[[], datetime]
Say = Callable[[str], None]


@dataclass(slots=True)
class Moved:
    """The records moved, or to be moved: entries of the ledger, retries, and requests not read yet.

    `obstacles` say what a dry run found that a move would refuse.
    """

    before: int
    after: int
    ledger: int = 0
    retries: int = 0
    requests: int = 0
    grown: dict[Topic, int] = field(default_factory=dict)
    obstacles: tuple[str, ...] = ()


async def move(
    bus: Bus, group_id: str, partitions: int, *, dry_run: bool, now: Now, say: Say
) -> Moved:
    """Raises SetUpError when it must not be, or cannot go on; to repeat it goes on where it was.

    A dry run looks beside workers that run.
    """
    layout, agreement = await bus.layout_and_lanes(*TOPICS)
    if agreement.wrong:
        message = str(agreement)
        raise SetUpError(f"{message[0].upper()}{message[1:]}. Nothing was moved.")
    of_runs = await bus.present(*RUN_TOPICS)
    counts = await bus.counts(*TOPICS, *of_runs)
    moved = Moved(layout.partitions, partitions)
    if layout.partitions == partitions and layout.moving_to is None:
        return moved
    members, committed = await _group(bus, group_id)
    found = (
        _members_text(group_id, members),
        _group_text(group_id, agreement.lanes),
        await hidden_runs(bus, RUN_TOPICS, "worker"),  # they would stay behind
        await _open_runs_text(bus, now()),
        # In the middle of a move no worker can read them.
        await _unread_text(bus, layout, agreement.lanes) if layout.moving_to is None else None,
    )
    moved.obstacles = tuple(filter(None, found))
    if moved.obstacles and not dry_run:
        raise SetUpError(moved.obstacles[0])
    moved.grown = {topic: count for topic, count in counts.items() if count < partitions}
    if not dry_run and moved.grown:
        say(f"giving {len(moved.grown)} topics {partitions} partitions")
        async with topics_on(bus, (*TOPICS, *of_runs)) as topics:
            await topics.grow(list(moved.grown), partitions)
    counts = await bus.counts(*TOPICS)
    lanes = agreement.lanes
    move = _Move(bus, group_id, layout, partitions, counts, committed, lanes, moved, now, say)
    try:
        await move.run(dry_run=dry_run)
    except ProducerFenced:
        raise SetUpError(
            "A worker has begun to work meanwhile: stop all workers, and run the same again."
        ) from None
    except UnreadableRecord as error:
        raise SetUpError(f"{error} Nothing of its partition was moved.") from None
    return moved


@dataclass(slots=True)
class _Move:
    bus: Bus
    group_id: str
    layout: Layout
    partitions: int
    counts: Mapping[Topic, int]
    committed: Mapping[TopicPartition, int]
    lanes: Lanes
    moved: Moved
    now: Now
    say: Say

    async def run(self, *, dry_run: bool) -> None:
        numbers = range(max(self.counts.values()))
        async with AsyncExitStack() as stack:
            writers: list[KafkaShard] = []
            if not dry_run:
                self.say("shutting the lanes")
                # A worker that still runs, unseen, writes nothing any more.
                writers += [
                    await stack.enter_async_context(self._writer(number)) for number in numbers
                ]
                begun = begun_records(
                    self.layout, self.partitions, self.lanes, self.group_id, self.now()
                )
                await _commit(writers[0], list(begun))
            reader = await stack.enter_async_context(reading(self.bus, (LEDGER, RETRIES)))
            for number in numbers:
                self.say(f"partition {number} of {len(numbers)}")
                await self._partition(reader, number, writers[number] if writers else None)
            if writers:
                there, lanes = self.counts[LEDGER], {**await self._new_lanes(), **self.lanes}
                done = done_records(
                    self.layout, self.partitions, there, lanes, self.group_id, self.now()
                )
                await _commit(writers[0], list(done))

    async def _new_lanes(self) -> Lanes:
        """Lanes of partitions that come into use: each begins behind the leases that are there."""
        numbers = range(self.layout.partitions, self.partitions)
        if not numbers or not await self.bus.present(LEASES):
            return {}
        places = [self.bus.place(LEASES, number) for number in numbers]
        async with self.bus.running(self.bus.consumer()) as consumer:
            with self.bus.explained():
                ends = await bounded(consumer.end_offsets(places), START_TIMEOUT_S)
        new = LaneRecord(
            partitions=self.partitions, openings_without_progress=0, worker=WRITER, at=self.now()
        )
        return {
            place.partition: new.model_copy(update={"leases_at": ends[place]}) for place in places
        }

    @asynccontextmanager
    async def _writer(self, number: int) -> AsyncIterator[KafkaShard]:
        """Writes as the lane of this partition does, and so as the only one at that time."""
        options = {"bootstrap_servers": self.bus.servers, **self.bus.options}
        shard = KafkaShard(Names(self.bus.prefix, self.group_id, number, options), BrokerClock())
        try:
            with self.bus.explained():
                await shard.fence()
            yield shard
        finally:
            await shard.close()

    async def _partition(self, reader: Reader, number: int, writer: KafkaShard | None) -> None:
        held = PartitionContents(number)
        async for stored in reader.records(None, number):
            held.take(stored)
        held.check()
        at = self.bus.place(REQUESTS, number)
        moves = held.moves(self.partitions, self.committed.get(at, 0), self.now())
        for chunk in _transactions(moves):
            if writer:
                await _commit(writer, [record for pair in chunk for record in pair])
            self.moved.ledger += sum(new.topic is LEDGER for new, *_ in chunk)
            self.moved.retries += sum(new.topic is RETRIES for new, *_ in chunk)
        if number < self.counts[REQUESTS]:
            await self._requests(held, number, writer)

    async def _requests(
        self, held: PartitionContents, number: int, writer: KafkaShard | None
    ) -> None:
        """Forward what is unread, in its order.

        The lane knows what was forwarded by its ledger, or without one by the offset.
        """
        places, is_used, schemas = held.places(), number < self.partitions, KnownSchemas()
        chunk: list[OutRecord] = []
        offset: int | None = None
        async for record in self._unread(number):
            found = forwarded(arrival(record, schemas), places, self.partitions, self.now())
            if isinstance(found, tuple):
                chunk += found
                self.moved.requests += 1
            elif not is_used and not found.is_done:
                break  # the lane says what is wrong with it, and goes on from there
            offset = None if is_used else record.offset + 1
            if len(chunk) >= CHUNK_RECORDS:
                await _commit(writer, chunk, offset)
                chunk = []
        await _commit(writer, chunk, offset)

    async def _unread(self, number: int) -> AsyncIterator[ConsumerRecord]:
        place = self.bus.place(REQUESTS, number)
        consumer: AIOKafkaConsumer = self.bus.consumer()
        async with self.bus.running(consumer):
            with self.bus.explained():
                consumer.assign([place])
                start = (await consumer.beginning_offsets([place]))[place]
                end = (await consumer.end_offsets([place]))[place]
                consumer.seek(place, max(start, self.committed.get(place, 0)))
                while await consumer.position(place) < end:
                    batches = await consumer.getmany(place, timeout_ms=_POLL_MS)
                    for record in batches.get(place, ()):
                        if record.offset < end:
                            yield record


def _transactions(
    moves: Iterable[tuple[OutRecord, ...]],
) -> Iterator[list[tuple[OutRecord, ...]]]:
    """Groups of related records for transactions of bounded size."""
    chunk: list[tuple[OutRecord, ...]] = []
    size = 0
    for moved in moves:
        chunk.append(moved)
        size += sum(record.size_bytes for record in moved)
        if len(chunk) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


async def _commit(
    writer: KafkaShard | None, records: Sequence[OutRecord], offset: int | None = None
) -> None:
    if writer is not None and (records or offset is not None):
        await bounded(writer.commit(records, offset), COMMIT_TIMEOUT_S)


async def _group(bus: Bus, group_id: str) -> tuple[int, Mapping[TopicPartition, int]]:
    """How many workers are there, and how far they have read."""
    async with bus.admin() as admin:
        members, offsets = await bounded(_of_group(admin, group_id), START_TIMEOUT_S)
    return members, {place: found.offset for place, found in offsets.items() if found.offset >= 0}


def _members_text(group_id: str, members: int) -> str | None:
    if not members:
        return None
    return (
        f"The group {group_id} has {count_text(members, 'member')}: stop all workers first. One "
        "that was killed leaves when its session ends, after `kafka.session_timeout_ms`."
    )


def _group_text(group_id: str, lanes: Lanes) -> str | None:
    """Of another group than theirs, how far lanes have read is not known: all would be unread."""
    others = sorted({lane.group for lane in lanes.values() if lane.group} - {group_id})
    if not others:
        return None
    return (
        f"The lanes are of the consumer group {others[0]}, and the settings name {group_id}: set "
        f"`kafka.group_id` to {others[0]} and run the same again, or start workers of {group_id} "
        "once and stop them. Nothing was moved."
    )


async def _open_runs_text(bus: Bus, now: datetime) -> str | None:
    """A lane goes on with the runs of its own partition alone."""
    if not (requests := open_requests(await _records(bus, RUNS), now)):
        return None
    return (
        f"Runs or cancellations that are open: {len(requests)} ({_shown(requests)}). A move does "
        "not take them along. Start the workers with the former number, publish no request with "
        "`agent`, wait until these have had their outcome or cancel them with `answerbus "
        "cancel`, stop the workers, and run the same again. Nothing was moved."
    )


async def _unread_text(bus: Bus, layout: Layout, lanes: Lanes) -> str | None:
    """A lane applies the cancellations of its own partition alone."""
    controls = await _records(bus, CONTROLS)
    if not (unread := unread_cancels(controls, layout.partitions, lanes)):
        return None
    return (
        f"Cancellations that no worker has read: {len(unread)} ({_shown(unread)}). A move does not "
        "take them along. Start the workers with the former number, and stop them once "
        "these are applied (`answerbus workflow`). Nothing was moved."
    )


async def _records(bus: Bus, topic: Topic) -> list[Stored]:
    """All of a topic; none where it is missing."""
    if not await bus.present(topic):
        return []
    async with reading(bus, (topic,)) as reader:
        return [stored async for stored in reader.records()]


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - OPEN_RUNS_SHOWN} more" if names[OPEN_RUNS_SHOWN:] else ""
    return ", ".join(names[:OPEN_RUNS_SHOWN]) + more


async def _of_group(
    admin: AIOKafkaAdminClient, group_id: str
) -> tuple[int, Mapping[TopicPartition, OffsetAndMetadata]]:
    return await members_of(admin, group_id), await admin.list_consumer_group_offsets(group_id)
