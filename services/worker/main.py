"""The composition root of the worker: everything is made and tied together here."""

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from faststream import FastStream

from answerbus.topics import LEDGER, REQUESTS, RETRIES, RUN_TOPICS, RUNS, TOOL_RESULTS, Topic
from services import plugins
from services.kafka import connection_options, servers, topic_name
from services.live_mask import mask_of
from services.settings import KafkaSettings, Settings
from services.telemetry.counts import Counts
from services.telemetry.exporter import exporter_of
from services.worker.adapters import backends, garbage_collector
from services.worker.adapters.agents import complete, known_agents, pins_of
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka import broker_check
from services.worker.adapters.kafka.clock_check import check_clock, watch_clock
from services.worker.adapters.kafka.consumer_renewal import Renewal, renew
from services.worker.adapters.kafka.coordinator import Coordinator
from services.worker.adapters.kafka.forwarding import shards_of
from services.worker.adapters.kafka.group_consumer import GroupConsumer
from services.worker.adapters.kafka.intake import Inbox, PartitionIntake
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.other_groups import OtherGroups
from services.worker.adapters.kafka.position_check import check_positions
from services.worker.adapters.kafka.prompt_secret import prompt_secret
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.rights_check import check_rights
from services.worker.adapters.kafka.run_consumers import reading_for_runs
from services.worker.adapters.kafka.shard import Names
from services.worker.adapters.kafka.subscription import NotJoined, RequestBroker, subscribe
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.adapters.telemetry.span_observer import SpanObserver
from services.worker.context import Context, Limits, RunSetup
from services.worker.core.budget.closed import IdMemory
from services.worker.core.limits.group_share import GroupShare
from services.worker.core.outcome.backoff import Backoff
from services.worker.core.run.known_tools import KnownTools
from services.worker.handle import handle
from services.worker.health.loop_monitor import LoopMonitor
from services.worker.health.probe import Probe
from services.worker.health.profile_monitor import ProfileMonitor
from services.worker.health.server import Health
from services.worker.health.watched import Bounds, HealthInputs
from services.worker.lane.lifecycle import Lifecycle, new_lifecycle
from services.worker.limits.slots import Slots
from services.worker.observer import Observer, Observers
from services.worker.plans import Planner

_log = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT, then drain. Raises SetUpError before any work is done."""
    registry = plugins.registry()
    agents = known_agents(settings.agents)
    partitions = await broker_check.partitions_of_deployment(
        settings.kafka, for_runs=RUN_TOPICS if agents else ()
    )
    await check_rights(settings.kafka, partitions)
    clock = BrokerClock()
    await check_clock(settings.kafka, clock)
    measures = MetricsObserver(settings.profiles, registry)
    name = settings.worker.name or f"{socket.gethostname()}-{os.getpid()}"
    otlp = exporter_of(settings.telemetry, name)
    observers = Observers([measures, SpanObserver(otlp)] if otlp else [measures])
    try:
        profiles, advice = await backends.started(settings.profiles, clock)
        for sentence in (*advice, *settings.advice):
            _log.warning(sentence)
        try:
            tools, secret = KnownTools(pins_of(settings.agents)), await prompt_secret(settings)
            planner = Planner(profiles, registry, secret, agents, tools.tools)
            context = _context(settings, name, partitions, planner, observers, clock)
            garbage_collector.tune_garbage_collector()
            await _serve(settings, context, clock, measures.counts, tools)
        finally:
            await backends.close(profiles)
    finally:
        if otlp:
            await asyncio.to_thread(otlp.close)


async def _serve(
    settings: Settings, context: Context, clock: BrokerClock, counts: Counts, tools: KnownTools
) -> None:
    kafka = settings.kafka
    group_id = kafka.worker_group
    others = OtherGroups(kafka)
    context = replace(
        context, group=group_id, members_of=others.members_of, offset_of=others.offset_of
    )
    topic = topic_name(kafka, REQUESTS)
    read_monitor = ReadMonitor()
    options = connection_options(kafka).at(servers(kafka))
    consumer = GroupConsumer(read_monitor, options, kafka.client_rack)

    new_life = _lives(context, kafka, options, consumer, read_monitor, clock)
    membership = Membership(consumer.current, new_life, partial(_share_out, context))
    inbox = Inbox(consumer.current, membership)
    broker = RequestBroker(kafka, consumer)
    subscriber = subscribe(broker, kafka, topic, membership, inbox.take)

    async def ends() -> Mapping[int, int]:
        return await check_positions(consumer.current(), topic, membership.lifecycles, read_monitor)

    bounds = Bounds(settings.worker.stuck_after_s, kafka.session_timeout_ms / 1000)
    probe = Probe(ends, partial(broker_check.refused, kafka, options))
    watched = HealthInputs(membership, context, LoopMonitor(), probe, bounds, others, read_monitor)
    coordinator = Coordinator(kafka)
    watched = replace(watched, coordinator=coordinator, clock_ahead_s=lambda: clock.ahead_s)
    mask = mask_of(settings)
    health = Health(settings.worker.health, watched, counts, settings.worker.health_hosts, mask)

    rebalance_s = kafka.rebalance_timeout_ms / 1000
    anew = partial(renew, subscriber, membership, topic, bounds.session_s + rebalance_s)
    renewal = Renewal(read_monitor, anew, bounds.session_s, rebalance_s, bounds.stuck_after_s)

    async def watch() -> None:
        renewal.start()

    async def drain() -> None:
        await renewal.stop()
        await membership.drain(settings.drain_s)

    address = await health.start()
    asks = coordinator.run(lambda: membership.is_outside)
    profiles = ProfileMonitor(context.planner.backends).run()
    watches = (others.run(), watch_clock(kafka, clock), profiles, asks)
    watching = [asyncio.create_task(watch) for watch in watches]
    watching += await _reading_for_runs(settings, context, tools, membership)
    _log.info("worker %s: %d partitions, health at %s", context.worker, context.partitions, address)
    try:
        application = FastStream(broker, logger=None, after_startup=[watch], on_shutdown=[drain])
        await _run(application, kafka, coordinator)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
        await health.stop()
    _log.info("worker %s has drained", context.worker)


def _lives(
    context: Context,
    kafka: KafkaSettings,
    options: Mapping[str, Any],
    consumer: GroupConsumer,
    read_monitor: ReadMonitor,
    clock: BrokerClock,
) -> Callable[[int], Lifecycle]:
    topic, rack = topic_name(kafka, REQUESTS), kafka.client_rack

    def new_life(partition: int) -> Lifecycle:
        private = _private_topics(context, partition)
        names = Names(kafka.topic_prefix, kafka.worker_group, partition, options, private, rack)
        place = TopicPartition(topic, partition)
        intake = PartitionIntake(consumer.current, read_monitor, place)
        shard = shards_of(names, clock, context.partitions)
        return new_lifecycle(partition, context, intake, shard, handle)

    return new_life


def _private_topics(context: Context, partition: int) -> tuple[Topic, ...]:
    """What a lane reads of its past; one beyond those in use has no runs."""
    has_runs = context.runs.is_on and partition < context.partitions
    return (LEDGER, RETRIES, RUNS) if has_runs else (LEDGER, RETRIES)


async def _reading_for_runs(
    settings: Settings, context: Context, tools: KnownTools, membership: Membership
) -> list["asyncio.Task[None]"]:
    """A worker without agents reads nothing of runs."""
    if not context.runs.is_on:
        return []
    options = connection_options(settings.kafka).at(servers(settings.kafka))
    return await reading_for_runs(settings.kafka, options, tools, lambda: membership.lifecycles)


def _share_out(context: Context, assigned: Collection[int]) -> None:
    context.planner.share_out(GroupShare.of(assigned, context.partitions))


async def _run(application: FastStream, kafka: KafkaSettings, coordinator: Coordinator) -> None:
    try:
        await application.run()
    except NotJoined:
        await coordinator.ask()
        raise broker_check.not_joined(kafka, coordinator.trouble) from None
    except KafkaError as error:
        raise broker_check.not_started(kafka, error) from error


def _context(
    settings: Settings,
    name: str,
    partitions: int,
    planner: Planner,
    observer: Observer,
    clock: BrokerClock,
) -> Context:
    worker = settings.worker
    return Context(
        worker=name,
        partitions=partitions,
        planner=planner,
        clock=clock,
        jitter=random.SystemRandom().random,
        backoff=Backoff(worker.retry_first_s, worker.retry_factor, worker.retry_max_s),
        limits=Limits(
            max_in_flight=worker.max_in_flight,
            held_max=worker.held_max,
            lane_requests_max=worker.lane_requests_max,
            lane_bytes_max=worker.lane_bytes_max,
            handover_s=settings.drain_s,
            id_memory=IdMemory(timedelta(seconds=settings.ids.remember_s)),
        ),
        slots=Slots(worker.max_in_flight),
        observer=observer,
        runs=RunSetup(
            is_on=bool(planner.agents),
            reply_topic=topic_name(settings.kafka, TOOL_RESULTS),
            complete=partial(complete, planner.agents),
        ),
    )
