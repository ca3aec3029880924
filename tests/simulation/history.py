"""One history: workers that come and go, requests that are asked, and faults, all by the seed."""

import asyncio
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import count

from aiokafka.errors import KafkaError

from answerbus.topics import RUN_TOPICS
from services.worker.core.attempt.fallback import Condition, Fallback
from services.worker.core.budget.accounts import AccountMemory
from services.worker.core.budget.closed import IdMemory
from services.worker.lane.context import Limits
from services.worker.lane.recovery import STABLE_S
from services.worker.lane.state.machine import State
from tests.simulation.boundary import Boundary
from tests.simulation.budgets import budget_rules
from tests.simulation.cluster import Cluster
from tests.simulation.consumer import SimConsumer
from tests.simulation.faults import Faults
from tests.simulation.group import Group
from tests.simulation.log import Headers
from tests.simulation.next_group import NextGroup, NextSimConsumer
from tests.simulation.process import Process
from tests.simulation.provider import POISON, SimProvider
from tests.simulation.timeline import Timeline
from tests.simulation.upstream import Upstream
from tests.simulation.worker import PREFIX, TOPIC, Worker, World
from tests.storms.astray import astray
from tests.storms.proxy import PASS

END_S_MAX = 1_800.0  # virtual; the longest request has 300 s, those beside poison 1,500
POISONED = 0.06  # of all histories have a request that ends its worker
ASTRAY = (0.0, 0.0, 0.02, 0.2)  # of the requests of transactions, by history
RESTART_S = 1.0  # of a worker that poison has ended
LOOK_S = 1.0
# Of the profile that is asked, by history.
FALLBACKS: tuple[tuple[Fallback, ...], ...] = (
    *[()] * 3,
    (Fallback("large", (Condition("unhealthy"), Condition("throttled", 5.0))),),
    (Fallback("large", (Condition("invalid", 2), Condition("truncated"), Condition("refused"))),),
    (Fallback("large", (Condition("unhealthy"), Condition("invalid"))),),
)
REST_S = 40.0  # for the calls of orphans, and for lanes to close
DRAIN_S = 30.0
DRAINED_S_MAX = 120.0


class StuckError(Exception):
    """Something that must come to an end does not."""


class History:
    """`stable_at` is the loop time since which nothing is disturbed any more."""

    def __init__(self, seed: int, *, next_rebalance: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.partitions = self.chance.choice((1, 2, 3))
        # What an operator has added to the requests topic: lanes beyond the deployment's forward.
        added = random.Random(f"added {seed}").choice((0, 0, 1, 2))
        self.there = self.partitions + added
        self.timeline = Timeline()
        packed = random.Random(f"packed {seed}")
        limits = Limits(
            max_in_flight=self.chance.choice((2, 4, 20)),
            held_max=self.chance.choice((2, 100)),
            lane_requests_max=self.chance.choice((4, 100)),
            lane_bytes_max=1_000_000,
            id_memory=IdMemory(
                chunk_ids=packed.choice((2, 5)),
                chunk_every=timedelta(seconds=packed.choice((3, 900))),
            ),
            account_memory=AccountMemory(idle=timedelta(seconds=packed.choice((0, 0.5, 3, 60)))),
        )
        fallbacks = random.Random(f"fallbacks {seed}").choice(FALLBACKS)
        # Requests weigh less of a profile that is away while there is another one, and while they
        # wait for a shared budget.
        budgets = budget_rules(seed)
        is_lighter = fallbacks or budgets.by_label
        held_max = sys.maxsize if is_lighter else limits.lane_requests_max
        self.boundary = Boundary(self.timeline, self.partitions, held_max)
        self.cluster = Cluster(self.chance, self.timeline, self.boundary)
        self.cluster.rule = astray(seed, random.Random(f"{seed} astray").choice(ASTRAY))
        group = NextGroup if next_rebalance else Group
        self.group = group(self.cluster, self.there, self.boundary, self.chance)
        self.provider = SimProvider(seed, self.timeline, self.chance.choice((0.0, 0.2, 0.6)))
        self.second = self.provider.second()
        self.world = World(
            cluster=self.cluster,
            group=self.group,
            provider=self.provider,
            second=self.second,
            fallbacks=fallbacks,
            partitions=self.partitions,
            limits=limits,
            budgets=budgets,
            member=NextSimConsumer if next_rebalance else SimConsumer,
        )
        self.workers: list[Worker] = []
        self.everyone: list[Worker] = []
        self.processes: list[Process] = []
        self.stable_at = 0.0
        self.has_poison = random.Random(f"{seed} {POISON}").random() < POISONED
        self.careful: list[str] = []  # lanes that stay so without a reason
        requests = self.chance.choice((5, 15, 25))
        self._parents = random.Random(f"parents {seed}")
        self._upstream = Upstream(self.chance, self.partitions, requests, self.there, self._parents)
        self._pending: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        """One more worker."""
        process = Process(f"worker-{len(self.everyone)}", len(self.everyone))
        self.processes.append(process)
        self.timeline.tell("starts", who=process.name)
        worker = Worker(self.world, process, random.Random(f"{self.seed} {process.name}"))
        self.workers.append(worker)
        self.everyone.append(worker)

    def lose(self, worker: Worker) -> None:
        """It goes, one way or the other."""
        self.workers.remove(worker)
        worker.process.absences += 1
        self.group.lose_touch(worker.process)

    def later(self, seconds: float, then: Callable[[], None]) -> None:
        """Something that happens, unless the faults end before."""
        self._pending.append(asyncio.get_running_loop().call_later(seconds, then))

    async def run(self) -> None:
        """Raises StuckError."""
        self.provider.kill = self.second.kill = self._poisoned
        if not self.world.has_signals:  # as most deployments are
            self.cluster.missing |= {topic.full_name(PREFIX) for topic in RUN_TOPICS}
        for _ in range(self.chance.choice((1, 2, 2, 3))):
            self.start()
        publishing = asyncio.create_task(self._publish())
        await Faults(self).happen(self.chance.randint(1, 14))
        await publishing
        await self._stabilize()
        await self._end()

    def _poisoned(self, process: Process) -> None:
        """It ends at any place; what follows is not calm."""
        if process.is_dead:
            return
        self.timeline.tell("is ENDED by poison", who=process.name)
        loop = asyncio.get_running_loop()
        for worker in [worker for worker in self.workers if worker.process is process]:
            self.lose(worker)
            loop.call_later(RESTART_S, self.start)
        process.is_dead = True
        self.group.lose_touch(process)
        if self.stable_at:
            self.stable_at = loop.time()

    async def _publish(self) -> None:
        for wait_s, partition, value, headers in self._upstream.records():
            await asyncio.sleep(wait_s)
            self._publish_one(0, partition, value, headers)
        if self.has_poison:
            for partition, value in self._upstream.poisoned(POISON):
                epochs = count(1)
                while any(self._publish_one(next(epochs), partition, value, ())):
                    pass  # the record was refused, and none may follow it

    def _publish_one(
        self, epoch: int, partition: int, value: bytes | None, headers: Headers
    ) -> list[KafkaError | None]:
        reported = self.cluster.produce(None, epoch, [(TOPIC, partition, None, value, headers)])
        text = (value or b"nothing")[:60].decode(errors="replace")
        self.timeline.tell(f"published to {partition}: {text}", who="upstream")
        return reported

    async def _stabilize(self) -> None:
        """What still lasts ends at its own time."""
        self.cluster.end_faults.clear()
        self.cluster.rule = lambda _: PASS
        self.cluster.refusals.clear()
        loop = asyncio.get_running_loop()
        last = max((timer.when() for timer in self._pending), default=loop.time())
        await asyncio.sleep(max(last - loop.time(), 0) + 0.001)
        self.stable_at = loop.time()
        self.timeline.tell("calm from here on", who="world")

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_all_read():
            if loop.time() - self.stable_at > END_S_MAX:
                raise StuckError("the group's offset never reached the end of the requests")
            await asyncio.sleep(LOOK_S)
        self.timeline.tell("everything has been read", who="world")
        await asyncio.sleep(REST_S)
        while not self._is_all_ended():
            if loop.time() - self.stable_at > END_S_MAX:
                raise StuckError("some retries are listed that never end")
            await asyncio.sleep(LOOK_S)
        if self.has_poison:
            await asyncio.sleep(STABLE_S + LOOK_S)
            self.careful = [
                f"{worker.process.name} is still careful with lane {partition}"
                for worker in self.workers
                for partition, lifecycle in worker.membership.lifecycles.items()
                if lifecycle.lane.state is State.OPEN
                and lifecycle.lane.opened.is_careful
                and loop.time() - lifecycle.lane.entered_at > STABLE_S + REST_S / 2
            ]
        drained = loop.time() + DRAINED_S_MAX
        for worker in self.workers:
            worker.drain(DRAIN_S)
        while any(not worker.has_ended for worker in self.everyone if not worker.process.is_dead):
            if loop.time() > drained:
                raise StuckError("a worker was told to stop and does not end")
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(LOOK_S)

    def _is_all_read(self) -> bool:
        requests = [self.cluster.log(TOPIC, partition) for partition in range(self.there)]
        return all(
            self.cluster.offsets.get(log.partition, 0) > (log.whole[-1].offset if log.whole else -1)
            for log in requests
        )

    def _is_all_ended(self) -> bool:
        """No retry is listed any more, or so many are left after the longest deadline."""
        retries = (log for (topic, _), log in self.cluster.logs.items() if ".retries." in topic)
        for log in retries:
            entries, _ = log.read(0, len(log.entries))
            last = {entry.key: entry.value for entry in entries}
            if any(value is not None for value in last.values()):
                return False
        return True
