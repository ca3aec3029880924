"""From Kafka to lanes: a FastStream batch subscriber that takes records in and never waits."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import Any

from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.ledger import Watched
from services.kafka import faststream_security
from services.settings import KafkaSettings
from services.topics.worker_groups import WORKER_CLIENT
from services.worker.arrivals import arrival, bare_arrival
from services.worker.lane.careful_reading import must_be_read_alone, read_alone
from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.membership import Membership
from services.worker.position_check import check_positions
from services.worker.read_monitor import ReadMonitor, Subscriber

POLL_MS = 20  # FastStream waits this long twice on an idle topic
RECORDS_PER_POLL_MAX = 100  # taken in at one go, while answers, commits and heartbeats wait
FETCH_BYTES_MAX = 4 * 1024 * 1024
PARTITION_FETCH_BYTES_MAX = 256 * 1024  # of which each partition has one more in waiting
OFFSET_TIMEOUT_S = 10.0  # for asking or telling the group's coordinator; it hangs without a broker
HEARTBEATS_PER_SESSION = 5
METADATA_MAX_AGE_MS = 3_000  # added partitions are noticed so soon; aiokafka's default: 5 minutes

_log = logging.getLogger(__name__)

Records = Sequence[Record]


@dataclass(frozen=True, slots=True)
class PartitionIntake:
    """See ports.Intake."""

    inbox: "Inbox"
    place: TopicPartition

    def pause(self) -> None:
        if self.place in self.inbox.consumer.assignment():
            self.inbox.consumer.pause(self.place)

    def resume(self) -> None:
        if self.place in self.inbox.consumer.assignment():
            self.inbox.consumer.resume(self.place)

    def seek(self, offset: int) -> None:
        if self.place in self.inbox.consumer.assignment():
            self.inbox.consumer.seek(self.place, offset)

    async def start_offset(self) -> tuple[int, int]:
        consumer = self.inbox.consumer
        found = await bounded(consumer.beginning_offsets([self.place]), OFFSET_TIMEOUT_S)
        committed = await bounded(consumer.committed(self.place), OFFSET_TIMEOUT_S)
        earliest = found[self.place]
        is_anew = committed is None or self.place.partition in self.inbox.read_monitor.anew
        return (earliest if is_anew else committed), earliest

    async def prove(self, offset: int) -> None:
        told = {self.place: OffsetAndMetadata(offset, "")}
        await bounded(self.inbox.consumer.commit(told), OFFSET_TIMEOUT_S)


class Inbox:
    """The subscription of one worker to the requests topic."""

    def __init__(self, settings: KafkaSettings, topic: str, group_id: str) -> None:
        self.membership: Membership
        self._topic = topic
        self.broker = _Broker(
            settings.bootstrap_servers.split(","),
            security=faststream_security(settings),
            consumer_only=True,
            allow_auto_create_topics=False,
            client_id=WORKER_CLIENT,
            apply_types=False,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            logger=None,
        )
        self.broker.start_limit_s = settings.join_limit_s
        self._settings = settings
        self._group_id = group_id
        self._watched: RecordConsumer | None = None  # of which `read_monitor` knows

    @property
    def consumer(self) -> RecordConsumer:
        """The group's consumer; there is one from the first assignment until the stop."""
        consumer: RecordConsumer | None = self._subscriber.consumer
        if consumer is None:
            raise RuntimeError("the worker is not subscribed")
        if consumer is not self._watched:
            self._watched = consumer
            consumer.getmany = partial(self.read_monitor.watched, consumer.getmany)  # type: ignore[method-assign]
        return consumer

    @cached_property
    def read_monitor(self) -> ReadMonitor:
        """Whether requests are read."""
        return ReadMonitor()

    async def ends(self) -> Mapping[int, int]:
        """Where our partitions end; see `check_positions`."""
        return await check_positions(
            self.consumer, self._topic, self.membership.lifecycles, self.read_monitor
        )

    def partition(self, partition: int) -> PartitionIntake:
        """The port for one lane."""
        return PartitionIntake(self, TopicPartition(self._topic, partition))

    def subscribe(self, membership: Membership) -> Subscriber:
        """Declare the subscription; records flow once the broker, or it alone, is started."""
        self.membership = membership
        settings = self._settings
        self._subscriber = self.broker.subscriber(
            self._topic,
            batch=True,
            group_id=self._group_id,
            group_instance_id=settings.group_instance_id,
            ack_policy=AckPolicy.MANUAL,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            partition_assignment_strategy=(StickyPartitionAssignor,),
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.session_timeout_ms // HEARTBEATS_PER_SESSION,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            batch_timeout_ms=POLL_MS,
            max_records=RECORDS_PER_POLL_MAX,
            fetch_max_bytes=FETCH_BYTES_MAX,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
            listener=membership,
            parser=_parse,
            decoder=_records,
            no_reply=True,
        )
        self._subscriber(self._take)
        return self._subscriber

    async def _take(self, records: Any) -> None:
        by_partition: dict[int, list[Record]] = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record)
        for partition, batch in by_partition.items():
            lifecycle = self.membership.lifecycles.get(partition)
            if lifecycle and await self._is_current(batch):
                self._deliver(lifecycle, batch)

    def _deliver(self, lifecycle: Lifecycle, batch: Records) -> None:
        lane, first = lifecycle.lane, batch[0]
        if must_be_read_alone(lane):
            read_alone(lane, first.offset, partial(arrival, first), partial(bare_arrival, first))
            return
        offset = first.offset
        try:
            arrivals = []
            for record in batch:
                offset = record.offset
                arrivals.append(arrival(record))
            lane.deliver(arrivals)
        except Exception as error:
            # A bug. What is not delivered must not become a gap, so the lane starts over.
            _log.exception("a batch of partition %d was not delivered", first.partition)
            lane.fail_at(Watched(what="record", offset=offset), error)

    async def _is_current(self, batch: Records) -> bool:
        """Whether the batch was fetched after the last seek: an older one would leave a gap."""
        place = TopicPartition(batch[-1].topic, batch[-1].partition)
        try:
            return bool(await self.consumer.position(place) > batch[-1].offset)
        except IllegalStateError:
            return False  # taken away meanwhile


async def _parse(raw: Records) -> KafkaMessage:
    """FastStream's own parser drops a whole batch for one odd header, so nothing is parsed here."""
    return KafkaMessage(body=b"", raw_message=tuple(raw), consumer=_NoConsumer())


async def _records(message: KafkaMessage) -> Any:
    return message.raw_message


class _NoConsumer:
    """Offsets are committed by lanes, so a message has nothing to acknowledge."""

    async def commit(self) -> None:
        pass

    def seek(self, partition: TopicPartition, offset: int) -> None:
        pass


class NotJoined(Exception):
    """The first consumer did not become a member of the group in time."""


class _Broker(KafkaBroker):
    """FastStream's, whose consumers no record can stop, and whose start has an end."""

    start_limit_s = inf

    async def start(self) -> None:
        try:
            await bounded(super().start(), self.start_limit_s)
        except TimeoutError:
            raise NotJoined from None

    async def stop(self, *error: Any) -> None:
        """A consumer that has failed says so again when it is stopped; the lanes have drained."""
        try:
            await super().stop(*error)
        except Exception as failure:
            _log.warning("the consumer did not stop well: %s", describe_error_for_log(failure))

    async def _connect(self) -> Callable[..., Any]:
        builder = await super()._connect()
        config = self.config.broker_config
        config.builder = partial(RecordConsumer, **getattr(builder, "keywords", {}))
        return config.builder
