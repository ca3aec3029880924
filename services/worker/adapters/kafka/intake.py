"""From Kafka to lanes: each batch goes to the lanes of its records, and none of it waits long."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.bounded import bounded
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.turns import TURN_S_MAX
from answerbus.private.ledger import WorkInProgress
from services.worker.adapters.kafka.arrivals import arrival, bare_arrival
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.lane.careful_reading import must_be_read_alone, read_alone
from services.worker.lane.lifecycle import Lifecycle

OFFSET_TIMEOUT_S = 10.0  # for asking or telling the group's coordinator; it hangs without a broker

_log = logging.getLogger(__name__)

CurrentConsumer = Callable[[], RecordConsumer]


@dataclass(frozen=True, slots=True)
class PartitionIntake:
    consumer: CurrentConsumer
    read_monitor: ReadMonitor
    place: TopicPartition

    def pause(self) -> None:
        if self.place in self.consumer().assignment():
            self.consumer().pause(self.place)

    def resume(self) -> None:
        if self.place in self.consumer().assignment():
            self.consumer().resume(self.place)

    def seek(self, offset: int) -> None:
        if self.place in self.consumer().assignment():
            self.consumer().seek(self.place, offset)

    async def start_offset(self) -> tuple[int, int]:
        consumer = self.consumer()
        found = await bounded(consumer.beginning_offsets([self.place]), OFFSET_TIMEOUT_S)
        committed = await bounded(consumer.committed(self.place), OFFSET_TIMEOUT_S)
        earliest = found[self.place]
        from_beginning = (
            committed is None or self.place.partition in self.read_monitor.from_beginning
        )
        return (earliest if from_beginning else committed), earliest

    async def prove(self, offset: int) -> None:
        offsets = {self.place: OffsetAndMetadata(offset, "")}
        await bounded(self.consumer().commit(offsets), OFFSET_TIMEOUT_S)


class Inbox:
    """What a worker has been sent, and which of its lanes each record is for."""

    def __init__(self, consumer: CurrentConsumer, membership: Membership) -> None:
        self._consumer = consumer
        self._membership = membership
        self._schemas = KnownSchemas()
        self._context = copy_context()  # the worker's own

    async def take(self, records: Sequence[Record]) -> None:
        """Deliver one batch of any partitions, in turns; never raises for a record."""
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record)
        for partition, batch in by_partition.items():
            left: Sequence[Record] = batch
            while left:
                lifecycle = self._membership.lifecycles.get(partition)
                if not (lifecycle and await self._is_current(left)):
                    break
                # In FastStream's context is the batch: each task that a lane begins would keep it.
                left = self._context.run(self._deliver, lifecycle, left)
                await asyncio.sleep(0)  # whatever the records hold, others have their turn

    def _deliver(self, lifecycle: Lifecycle, batch: Sequence[Record]) -> Sequence[Record]:
        """Deliver what can be read in one turn; returns what is left."""
        lane, first = lifecycle.lane, batch[0]
        if must_be_read_alone(lane):
            whole = partial(arrival, first, self._schemas)
            read_alone(lane, first.offset, whole, partial(bare_arrival, first))
            return ()
        offset, ends_at = first.offset, time.perf_counter() + TURN_S_MAX
        try:
            arrivals = []
            for record in batch:
                offset = record.offset
                arrivals.append(arrival(record, self._schemas))
                if time.perf_counter() >= ends_at:
                    break
            lane.deliver(arrivals)
        except Exception as error:
            # A bug. What is not delivered must not become a gap, so the lane starts over.
            _log.exception("a batch of partition %d was not delivered", first.partition)
            lane.fail_at(WorkInProgress(what="record", offset=offset), error)
            return ()
        return batch[len(arrivals) :]

    async def _is_current(self, batch: Sequence[Record]) -> bool:
        """Whether the batch was fetched after the last seek: an older one would leave a gap."""
        place = TopicPartition(batch[-1].topic, batch[-1].partition)
        try:
            return bool(await self._consumer().position(place) > batch[-1].offset)
        except IllegalStateError:
            return False  # taken away meanwhile
