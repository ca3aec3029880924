"""The subscription to the requests topic: a FastStream subscriber of whole batches.

What FastStream is used for here, and what not, and what that costs: decision 0030.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.batch import Record
from services.kafka.worker_groups import WORKER_CLIENT
from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.group_consumer import GroupConsumer
from services.worker.adapters.kafka.read_monitor import Subscriber

REST_MS = 20  # that FastStream sleeps after a poll without records; see WatchedConsumer
RECORDS_PER_POLL_MAX = 100  # taken in at one go, while answers, commits and heartbeats wait
FETCH_BYTES_MAX = 4 * 1024 * 1024
PARTITION_FETCH_BYTES_MAX = 256 * 1024  # each partition has one more answer of this size in waiting
HEARTBEATS_PER_SESSION = 5
HEARTBEAT_MS_MAX = 1_000  # by which a member hears that another has come, gone or died (0059)
LEAVE_S_MAX = 10.0  # until a consumer that cannot leave its group is left behind
METADATA_MAX_AGE_MS = 3_000  # added partitions are noticed so soon; aiokafka's default: 5 minutes

_log = logging.getLogger(__name__)

Records = Sequence[Record]


class NotJoined(Exception):
    """The first consumer did not become a member of the group in time."""


class RequestBroker(KafkaBroker):
    """FastStream's, whose consumers no record can stop, and whose start has an end."""

    def __init__(self, settings: KafkaSettings, consumer: GroupConsumer) -> None:
        super().__init__(
            settings.bootstrap_servers.split(","),
            consumer_only=True,
            allow_auto_create_topics=False,
            client_id=WORKER_CLIENT,
            apply_types=False,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            logger=None,
        )
        self._start_limit_s = settings.join_limit_s
        self._consumer = consumer

    async def start(self) -> None:
        """Join the group. Raises NotJoined after the time that a dead member may take."""
        try:
            await bounded(super().start(), self._start_limit_s)
        except TimeoutError:
            raise NotJoined from None

    async def stop(self, *error: Any) -> None:
        """A consumer that has failed says so again when it is stopped; the lanes have drained.

        aiokafka waits 40 s for a broker that does not answer, longer than a supervisor does.
        """
        try:
            await bounded(super().stop(*error), LEAVE_S_MAX)
        except Exception as failure:
            _log.warning("consumer did not stop cleanly: %s", describe_error_for_log(failure))

    async def _connect(self) -> Callable[..., Any]:
        """FastStream names the class of its consumers here; its options for them stay."""
        builder = await super()._connect()
        config = self.config.broker_config
        config.builder = partial(self._consumer.make, **getattr(builder, "keywords", {}))
        return config.builder


def subscribe(
    broker: KafkaBroker,
    settings: KafkaSettings,
    topic: str,
    listener: ConsumerRebalanceListener | None,
    take: Callable[[Any], Awaitable[None]],
) -> Subscriber:
    """Declare the subscription; `take` gets each batch once the broker, or this, is started."""
    subscriber = broker.subscriber(
        topic,
        batch=True,
        group_id=settings.worker_group,
        group_instance_id=settings.group_instance_id,
        ack_policy=AckPolicy.MANUAL,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        partition_assignment_strategy=(StickyPartitionAssignor,),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=heartbeat_ms(settings.session_timeout_ms),
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        batch_timeout_ms=REST_MS,
        max_records=RECORDS_PER_POLL_MAX,
        fetch_max_bytes=FETCH_BYTES_MAX,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
        listener=listener,
        parser=_parse,
        decoder=_records,
        no_reply=True,
    )
    subscriber(take)
    return subscriber


def heartbeat_ms(session_timeout_ms: int) -> int:
    """How often a member shows that it is alive, and asks whether the group has changed."""
    return min(session_timeout_ms // HEARTBEATS_PER_SESSION, HEARTBEAT_MS_MAX)


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
