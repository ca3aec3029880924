"""Makes lanes on Kafka: their readers, writers and sources of records."""

import asyncio
import gc
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import TopicPartition

from answerbus.topics import LEDGER, REQUESTS, RETRIES, RUNS, Topic
from services.kafka.options import topic_name
from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.forwarding import shards_of
from services.worker.adapters.kafka.group_consumer import GroupConsumer
from services.worker.adapters.kafka.intake import PartitionIntake
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.shard import Names
from services.worker.handle import handle
from services.worker.lane.context import LaneContext
from services.worker.lane.lifecycle import Lifecycle

COLLECT_AFTER_S = 10.0  # lanes move together: one search is for all of them


class ClosedClients:
    """Looks for garbage once after clients were closed, in all that there is.

    They hold themselves in cycles, and the searches of garbage_collector.py are so rare that they
    do not find a client that has lived long: each lane that moved cost 70 KiB for good.
    """

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None

    def note(self) -> None:
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(COLLECT_AFTER_S, self._collect)

    def _collect(self) -> None:
        self._due = None
        gc.collect()


def lane_factory(
    context: LaneContext,
    kafka: KafkaSettings,
    options: Mapping[str, Any],
    consumer: GroupConsumer,
    read_monitor: ReadMonitor,
) -> Callable[[int], Lifecycle]:
    """A factory of the lifecycles of lanes, by partition."""
    topic, rack = topic_name(kafka, REQUESTS), kafka.client_rack
    closed = ClosedClients()

    def new_lane_lifecycle(partition: int) -> Lifecycle:
        private = _private_topics(context, partition)
        names = Names(kafka.topic_prefix, kafka.worker_group, partition, options, private, rack)
        place = TopicPartition(topic, partition)
        intake = PartitionIntake(consumer.current, read_monitor, place)
        shard = shards_of(names, context, closed.note)
        return Lifecycle(partition, context, intake, shard, handle)

    return new_lane_lifecycle


def _private_topics(context: LaneContext, partition: int) -> tuple[Topic, ...]:
    """What a lane reads of its past; one beyond those in use has no runs."""
    has_runs = context.runs.is_on and partition < context.partitions
    return (LEDGER, RETRIES, RUNS) if has_runs else (LEDGER, RETRIES)
