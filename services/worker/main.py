"""The composition root of the worker."""

import asyncio
import logging
import os
import random
import secrets
import signal
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

from aiokafka.errors import KafkaError
from faststream import FastStream

from answerbus.client.diagnosis import describe_error_for_log
from answerbus.topics import REQUESTS, TOOL_RESULTS
from services.command_line import bus_of
from services.kafka.options import connection_options, servers, topic_name
from services.settings import plugins
from services.settings.secrets import LiveMask
from services.settings.settings import KafkaSettings, Settings
from services.settings.worker import card_advice
from services.telemetry.counts import Counts
from services.telemetry.exporter import exporter_of
from services.worker.adapters import backends, garbage_collector
from services.worker.adapters.agents import advice_on, complete, known_agents, pins_of
from services.worker.adapters.budget_rules import budget_rules
from services.worker.adapters.building import BackendContext
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.adapters.kafka import broker_check
from services.worker.adapters.kafka.broker_monitor import BrokerMonitor
from services.worker.adapters.kafka.clock_check import check_clock, watch_clock
from services.worker.adapters.kafka.consumer_renewal import Renewal, renew
from services.worker.adapters.kafka.coordinator import Coordinator
from services.worker.adapters.kafka.group_consumer import GroupConsumer
from services.worker.adapters.kafka.intake import Inbox
from services.worker.adapters.kafka.lane_factory import lane_factory
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.other_groups import OtherGroups
from services.worker.adapters.kafka.position_check import check_positions
from services.worker.adapters.kafka.prompt_secret import prompt_secret
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.resumption_check import ResumptionCheck
from services.worker.adapters.kafka.rights_check import check_rights
from services.worker.adapters.kafka.run_consumers import SignalConsumer, reading_for_runs
from services.worker.adapters.kafka.subscription import NotJoined, RequestBroker, subscribe
from services.worker.adapters.kafka.transaction_monitor import watching_transactions
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.adapters.telemetry.span_content import SpanContent
from services.worker.adapters.telemetry.span_observer import SpanObserver
from services.worker.adapters.tls_memory import bound_tls_buffers
from services.worker.core.budget.accounts import AccountMemory
from services.worker.core.budget.closed import IdMemory
from services.worker.core.limits.group_share import GroupShare
from services.worker.core.outcome.decide import Backoff
from services.worker.core.run.known_tools import KnownTools
from services.worker.core.run.tool_access import ToolAccess
from services.worker.health.loop_monitor import LoopMonitor
from services.worker.health.probe import Probe
from services.worker.health.profile_monitor import ProfileMonitor
from services.worker.health.server import Health
from services.worker.health.watched import HealthInputs
from services.worker.lane.context import LaneContext, Limits, RunSetup
from services.worker.lane.siblings import Siblings
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner
from services.worker.ports.observer import Observers
from services.worker.settings_reload import LiveSettings, ReadSettings, SettingsMonitor

_log = logging.getLogger(__name__)


async def run(
    whole: Settings,
    file: ReadSettings,
    mask: LiveMask,
    own: Callable[[Settings], Settings] = lambda settings: settings,
    siblings: Siblings | None = None,
) -> None:
    """Work until SIGTERM or SIGINT, then drain. Raises SetUpError before any work is done.

    `file` may bring other settings meanwhile, whose secrets `mask` learns; `own` gives this process
    its part of the limits.
    """
    look = _on_hang_up()
    settings, registry = own(whole), plugins.registry()
    agents = known_agents(settings.agents)
    needs = bool(agents or settings.budgets)  # leases of budgets are among the topics of runs
    deployment = await broker_check.deployment_layout(settings.kafka, needs_runs=needs)
    may_run = await check_rights(settings.kafka, deployment.partitions, needs_runs=needs)
    clock = BrokerClock()
    await check_clock(settings.kafka, clock)
    measures = MetricsObserver(settings.profiles, registry, settings.telemetry.labels)
    name = settings.worker.name or f"{socket.gethostname()}-{os.getpid()}"
    otlp = exporter_of(settings.telemetry, name)
    try:
        costly_work = ChildProcess()
        tools, secret = KnownTools(pins_of(settings.agents)), await prompt_secret(settings)
        shared = BackendContext(clock, mask, costly_work)
        profiles, advice = await backends.started(settings.profiles, shared)
        planner = Planner(profiles, registry, secret, agents, tools.tools, costly_work)
        observers = Observers([measures])
        if otlp:
            content = SpanContent(settings.telemetry.content, mask)
            observers = Observers([measures, SpanObserver(otlp, planner, content)])
        off = deployment.runs_off(may_use=may_run)
        advice += [*settings.advice, *advice_on(settings), *planner.fallback_advice()]
        for sentence in filter(None, (*advice, off)):
            _log.warning(sentence)
        others = OtherGroups(settings.kafka)
        context = replace(
            _context(settings, name, deployment.partitions, planner, clock),
            members_of=others.members_of,
            offset_of=others.offset_of,
            former_group=deployment.former_group,
            observer=observers,
            runs=_run_setup(settings, planner, tools, deployment, off, has_agents=bool(agents)),
            siblings=siblings or Siblings(),
            costly_work=costly_work,
        )
        live = LiveSettings(settings, own, context, shared, measures, tools)
        monitor = SettingsMonitor(file, whole, live.take, look)
        garbage_collector.tune_garbage_collector(settings.worker.max_in_flight)
        bound_tls_buffers()
        try:
            await _serve(live, monitor, context, clock, measures.counts, tools, others)
        finally:
            await live.stop()
            await costly_work.close()
    finally:
        if otlp:
            await asyncio.to_thread(otlp.close)


def _on_hang_up() -> asyncio.Event:
    """Set by SIGHUP, from now on; a process of several was started with the signal blocked."""
    reload_requested = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_requested.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    return reload_requested


async def _serve(
    live: LiveSettings,
    monitor: SettingsMonitor,
    context: LaneContext,
    clock: BrokerClock,
    counts: Counts,
    tools: KnownTools,
    others: OtherGroups,
) -> None:
    kafka, worker = live.current.kafka, live.current.worker
    topic, read_monitor = topic_name(kafka, REQUESTS), ReadMonitor()
    options = connection_options(kafka).at(servers(kafka))
    consumer = GroupConsumer(read_monitor, options, kafka.client_rack)
    new_lane_lifecycle = lane_factory(context, kafka, options, consumer, read_monitor)
    membership = Membership(consumer.current, new_lane_lifecycle, partial(_share_out, context))
    inbox, broker = Inbox(consumer.current, membership), RequestBroker(kafka, consumer)
    subscriber = subscribe(broker, kafka, topic, membership, inbox.take)

    async def ends() -> Mapping[int, int]:
        return await check_positions(consumer.current(), topic, membership.lifecycles, read_monitor)

    coordinator, brokers, signals = Coordinator(kafka), BrokerMonitor(kafka), SignalConsumer()
    transactions = watching_transactions((consumer.current, signals.current), kafka)
    session_s, rebalance_s = kafka.session_timeout_ms / 1000, kafka.rebalance_timeout_ms / 1000
    watched = HealthInputs(
        membership,
        context,
        LoopMonitor(),
        Probe(ends, partial(broker_check.refused, kafka, options)),
        worker.stuck_after_s,
        session_s,
        others,
        read_monitor,
        coordinator,
        brokers,
        signals,
        transactions,
        clock_ahead_s=lambda: clock.ahead_s,
        settings=monitor.settings_state,
        tools=tools,
        advice=lambda: card_advice(live.current.worker),
    )
    health = Health(worker.health, watched, counts, worker.health_hosts, live.mask)
    on_stall = partial(renew, subscriber, membership, topic, session_s + rebalance_s)
    renewal = Renewal(read_monitor, on_stall, session_s, rebalance_s, worker.stuck_after_s)

    address = await health.start()
    profiles = ProfileMonitor(lambda: context.planner.backends).run()
    looks, settling = brokers.run(watched.kafka_is_in_trouble), context.siblings.settle()
    own = (profiles, coordinator.run(lambda: membership.is_outside), looks, settling)
    watches = (others.run(), transactions.run(), watch_clock(kafka, clock), monitor.run(), *own)
    watching = [asyncio.create_task(watch) for watch in (*watches, live.watch_prices())]
    watching += await reading_for_runs(live.current, options, context, tools, membership, signals)
    _log.info("worker %s: %d partitions, health at %s", context.worker, context.partitions, address)
    try:
        await _run(_application(broker, renewal, membership, live), kafka, coordinator, watching)
    finally:
        await health.stop()
    _log.info("worker %s has drained", context.worker)


def _application(
    broker: RequestBroker, renewal: Renewal, membership: Membership, live: LiveSettings
) -> FastStream:
    async def watch() -> None:
        renewal.start()

    async def drain() -> None:
        await renewal.stop()
        await membership.drain(live.current.drain_s)

    return FastStream(broker, logger=None, after_startup=[watch], on_shutdown=[drain])


def _share_out(context: LaneContext, assigned: Collection[int]) -> None:
    context.siblings.has_share()
    context.planner.share_out(GroupShare.of(assigned, context.partitions))


async def _run(
    application: FastStream,
    kafka: KafkaSettings,
    coordinator: Coordinator,
    watching: "Collection[asyncio.Task[None]]",
) -> None:
    for task in watching:
        task.add_done_callback(partial(stop_on_failure, application))
    try:
        await application.run()
    except NotJoined:
        await coordinator.ask()
        raise broker_check.not_joined(kafka, coordinator.trouble) from None
    except KafkaError as error:
        raise broker_check.not_started(kafka, error) from error
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    for task in watching:
        if not task.cancelled():
            task.result()


def stop_on_failure(application: FastStream, task: "asyncio.Task[None]") -> None:
    """A worker without one of its background tasks drains, ends and is started again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a background task failed: %s", describe_error_for_log(error))
        application.exit()


def _context(
    settings: Settings,
    name: str,
    partitions: int,
    planner: Planner,
    clock: BrokerClock,
) -> LaneContext:
    worker = settings.worker
    return LaneContext(
        worker=name,
        partitions=partitions,
        planner=planner,
        clock=clock,
        jitter=random.Random().random,  # noqa: S311 - spreads retries
        backoff=Backoff(worker.retry_first_s, worker.retry_factor, worker.retry_max_s),
        limits=Limits(
            max_in_flight=worker.max_in_flight,
            held_max=worker.held_max,
            lane_requests_max=worker.lane_requests_max,
            lane_bytes_max=worker.lane_bytes_max,
            handover_s=settings.drain_s,
            id_memory=IdMemory.lasting(timedelta(seconds=settings.ids.remember_s)),
            account_memory=AccountMemory(timedelta(seconds=settings.accounts.remember_s)),
        ),
        slots=Slots(worker.max_in_flight),
        tenant_label=worker.tenant_label,
        budget_rules=budget_rules(settings.budgets),
        group=settings.kafka.worker_group,
    )


def _run_setup(
    settings: Settings,
    planner: Planner,
    tools: KnownTools,
    deployment: broker_check.DeploymentLayout,
    off_because: str | None,
    *,
    has_agents: bool,
) -> RunSetup:
    """`planner.agents` is read at each use, since new settings may bring other agents."""
    access = ToolAccess(
        secrets.token_bytes,
        topic_name(settings.kafka, TOOL_RESULTS),
        is_stopped=tools.is_stopped,
        current_policy=lambda agent, tool: planner.agents.current_policy(agent, tool),  # noqa: PLW0108
    )
    return RunSetup(
        is_on=deployment.has_run_topics and off_because is None,
        off_because=off_because,
        has_agents=has_agents,
        tools=access,
        complete=lambda admitted: complete(planner.agents, admitted),
        is_resumed=ResumptionCheck(bus_of(settings.kafka)),
    )
