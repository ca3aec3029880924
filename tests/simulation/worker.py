"""A worker process: the real lanes, handle, intake and Kafka adapter, over simulated clients."""

import asyncio
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from typing import Any
from unittest import mock

from aiokafka import TopicPartition

from answerbus.client import turns
from answerbus.registry import Registry
from answerbus.topics import LEDGER, REQUESTS, RETRIES, RUNS
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka import intake, shard
from services.worker.adapters.kafka.forwarding import ForwardingShard
from services.worker.adapters.kafka.intake import Inbox, PartitionIntake
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.run_reader import RunReader
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.core.attempt.fallback import Fallback
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.outcome.decide import Backoff
from services.worker.core.shared_budget.rules import BudgetRules
from services.worker.handle import handle
from services.worker.lane.context import LaneContext, Limits, RunSetup
from services.worker.lane.lifecycle import Lifecycle
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Backend, Planner
from services.worker.ports.kafka import Shard
from services.worker.ports.observer import Observers
from tests.simulation.agents.consumer import SignalConsumer
from tests.simulation.agents.setting import planner, run_setup
from tests.simulation.billing import tariff
from tests.simulation.cluster import Cluster
from tests.simulation.consumer import SimConsumer, SimReader
from tests.simulation.group import Group
from tests.simulation.process import Process
from tests.simulation.producer import SimTransactionalProducer
from tests.simulation.provider import SimProvider

PREFIX = "sim"
GROUP_ID = f"{PREFIX}.worker"
TOPIC = REQUESTS.full_name(PREFIX)
CALL_S_MAX = 20.0
RECORDS_PER_POLL = 8
LATE_BATCHES = 0.2  # how often a batch is on its way for longer than a moment
LATE_BATCH_S_MAX = 0.05
HOUR_S = 3_600.0
CLOCKS_OFF_S = (0.0, 0.0, 0.4, -60.0, 60.0, 26 * HOUR_S, -26 * HOUR_S, -8 * 24 * HOUR_S)
NULLS = timedelta(seconds=10)  # so long a null value stays at least; in earnest a day
SIGNAL_POLL_MS = 3_000  # what comes wakes the reader before
TELLS_ITS_TIME = 0.5  # the share of workers whose cluster does


@dataclass(frozen=True, slots=True)
class World:
    """What all workers share. With `has_questions`, agents and tools may ask people."""

    cluster: Cluster
    group: Group
    provider: SimProvider
    second: SimProvider  # of the profile `large`
    fallbacks: tuple[Fallback, ...]  # of the profile `default`
    partitions: int
    limits: Limits
    budgets: BudgetRules = field(default_factory=BudgetRules)
    has_agents: bool = False
    has_questions: bool = False
    member: type[SimConsumer] = SimConsumer

    @property
    def has_signals(self) -> bool:
        """Whether lanes read more than requests."""
        return self.has_agents or bool(self.budgets.by_label)


@contextmanager
def simulated_clients() -> Iterator[None]:
    """Let the Kafka adapter of lanes use these clients instead of aiokafka's.

    No turn ends by the time of this machine: of one seed there would be many histories.
    """
    with (
        mock.patch.object(shard, "TransactionalProducer", SimTransactionalProducer),
        mock.patch.object(shard, "RecordConsumer", SimReader),
        mock.patch.object(shard, "REST_S_MAX", NULLS.total_seconds() / 2),
        mock.patch.object(intake, "TURN_S_MAX", math.inf),
        mock.patch.object(turns, "TURN_S_MAX", math.inf),
    ):
        yield


async def poll(consumer: SimConsumer, inbox: Inbox, chance: random.Random) -> None:
    """As FastStream's batch loop does: the next poll begins when the handler has returned."""
    while True:
        found = await consumer.getmany(max_records=RECORDS_PER_POLL)
        late = chance.random() < LATE_BATCHES
        await asyncio.sleep(chance.uniform(0, LATE_BATCH_S_MAX) if late else 0)
        await inbox.take(tuple(chain.from_iterable(found.values())))


class Machine:
    """The clocks of one worker: one that is off by `off_s`, and one that only runs."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.off_s = chance.choice(CLOCKS_OFF_S)
        self._cluster, self._since_s = cluster, chance.uniform(0, 1e6)

    def wall_s(self) -> float:
        """What somebody has set."""
        return self._cluster.clock.now().timestamp() + self.off_s

    def steady_s(self) -> float:
        """What nobody can set."""
        return asyncio.get_running_loop().time() + self._since_s


class Worker:
    """One process from its start to its end; what it does happens in its own context."""

    def __init__(self, world: World, process: Process, chance: random.Random) -> None:
        self.process = process
        self.context: LaneContext
        self.membership: Membership
        self.has_ended = False
        self._world, self._chance = world, chance
        self.machine = Machine(world.cluster, chance)
        self._clock = BrokerClock(self.machine.wall_s, self.machine.steady_s)
        self._starting = process.spawn(self._main())

    def drain(self, limit_s: float) -> None:
        """What SIGTERM does."""
        self.process.spawn(self._drain(limit_s))

    async def _main(self) -> None:
        world = self._world
        if self._chance.random() < TELLS_ITS_TIME:
            await self._ask_for_the_time()
        self.context = self._new_context()
        self._read_monitor = ReadMonitor()
        self.membership = Membership(self._current, self._new_lane_lifecycle)
        consumer = world.member(world.cluster, world.group, TOPIC, self.process, self.membership)
        self._consumer = consumer
        inbox = Inbox(self._current, self.membership)
        self._running = [asyncio.create_task(poll(consumer, inbox, self._chance))]
        if world.has_signals:
            self._running.append(asyncio.create_task(self._run_reader().run()))

    def _run_reader(self) -> RunReader:
        """What tool servers, people and other lanes say."""
        cluster = self._world.cluster
        return RunReader(
            lambda: SignalConsumer(cluster=cluster),
            lambda topic: topic.full_name(PREFIX),
            lambda: self.membership.lifecycles,
            SIGNAL_POLL_MS,
        )

    def _current(self) -> Any:
        return self._consumer

    async def _ask_for_the_time(self) -> None:
        """What a worker does at start; not every cluster answers."""
        before_s, cluster = self._clock.steady_s(), self._world.cluster
        reported_ms = await cluster.ask(lambda: int(cluster.clock.now().timestamp() * 1000))
        self._clock.set_broker_time(reported_ms, before_s, self._clock.steady_s())

    async def _drain(self, limit_s: float) -> None:
        await asyncio.wait([self._starting])  # it may still ask for the time
        await self.membership.drain(limit_s)
        for task in self._running:
            task.cancel()
        await asyncio.wait(self._running)
        await self._consumer.stop()
        self.has_ended = True

    def _new_lane_lifecycle(self, partition: int) -> Lifecycle:
        place = TopicPartition(TOPIC, partition)
        intake = PartitionIntake(self._current, self._read_monitor, place)
        used = self.context.partitions
        has_runs = self._world.has_signals and partition < used
        private = (LEDGER, RETRIES, RUNS) if has_runs else (LEDGER, RETRIES)
        names = Names(PREFIX, GROUP_ID, partition, {"cluster": self._world.cluster}, private)

        def shard() -> Shard:
            found = KafkaShard(names, self._clock, self.context.runs.tools.unavailable)
            return found if partition < used else ForwardingShard(found, used)

        return Lifecycle(partition, self.context, intake, shard, handle)

    def _new_context(self) -> LaneContext:
        world = self._world
        facts = ProfileFacts("default", "sim", "m", 100, CALL_S_MAX, tariff())
        facts = replace(facts, fallbacks=world.fallbacks)
        large = ProfileFacts("large", "sim", "l", 100, CALL_S_MAX, tariff(2))
        slots = world.limits.max_in_flight
        backends = {"default": Backend(facts, "prompted", world.provider, ProfileLimiter(slots))}
        if world.fallbacks:
            backends["large"] = Backend(large, "prompted", world.second, ProfileLimiter(slots))
        tokens = random.Random(f"tokens {self.process.name}")
        has_agents, asks = world.has_agents, world.has_questions
        return LaneContext(
            worker=self.process.name,
            partitions=world.partitions,
            planner=planner(backends, asks=asks) if has_agents else Planner(backends, Registry()),
            runs=run_setup(tokens, asks=asks) if has_agents else RunSetup(),
            clock=self._clock,
            jitter=self._chance.random,
            backoff=Backoff(first_s=0.5, factor=2.0, max_s=10.0),
            limits=world.limits,
            slots=Slots(slots),
            budget_rules=world.budgets,
            observer=Observers([MetricsObserver({"default", "large"}, Registry())]),
        )
