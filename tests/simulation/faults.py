"""What can happen to workers, broker and provider, and when: decided by the seed."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from answerbus.topics import LEDGER, REQUESTS, RETRIES, RUNS
from tests.simulation.agents.setting import CALLS
from tests.simulation.cluster import Fault
from tests.simulation.worker import CLOCKS_OFF_S, NULLS, PREFIX, Worker

if TYPE_CHECKING:
    from tests.simulation.history import History

WORKERS_MAX = 4
KILLED_AT_COMMIT = 0.8
COMMIT_WAIT_S_MAX = 2.0
COMMIT_DELAYS_S = (0.0, 0.001, 0.004, 0.007, 0.01)  # within one commit, and in between two
ABSENCES_S = (0.5, 6.0, 8.0, 18.0, 30.0, 30.0)  # a session has 10, and an opening needs some
RESTART_LOOK_S = 0.1
PAUSES_S = (0.001, 0.01, 0.05, 0.3, 1.0, 3.0)

Kinds = list[Callable[[], Coroutine[Any, Any, None]]]


class Faults:
    """Each method is one kind of trouble; it comes back when the next may begin."""

    def __init__(self, history: "History") -> None:
        self._history = history
        self._chance = history.chance
        self._profiles = random.Random(f"{history.seed} profiles")
        commits: Kinds = [self.end_fails] * 4 + [self.record_is_refused] * 2 + [self.broker_is_away]
        absences: Kinds = [self.worker_sleeps] * 2 + [self.worker_is_cut_off]
        moves: Kinds = [self.worker_joins, self.worker_drains, self.group_rebalances]
        rest: Kinds = [self.provider_is_away, self.topics_are_cleaned, self.clock_is_set]
        deaths: Kinds = [self.worker_is_killed]
        self._kinds = self._chance.choice(
            (
                commits + deaths + absences + moves + rest,
                commits + moves,
                commits + deaths * 2,
                absences + moves,
                absences + rest,
                deaths + moves + rest,
            )
        )
        if history.world.has_agents:
            self._kinds = [*self._kinds, self.tool_topic_is_away]

    async def happen(self, number: int) -> None:
        """So many, one after the other; some last while the next begins."""
        for _ in range(number):
            await asyncio.sleep(self._chance.choice(PAUSES_S))
            await self._chance.choice(self._kinds)()

    async def end_fails(self) -> None:
        faults = self._history.cluster.end_faults
        for _ in range(self._chance.randint(1, 3)):
            faults.extend([None] * self._chance.randrange(4))
            faults.append(self._chance.choice((*Fault, Fault.SLOW, Fault.SLOW)))

    async def record_is_refused(self) -> None:
        refusals = self._history.cluster.refusals
        refusals.extend([False] * self._chance.randrange(3) + [True])

    async def worker_is_killed(self) -> None:
        worker = await self._victim()
        self._tell("is KILLED", worker)
        self._history.lose(worker)
        worker.process.is_dead = True
        if self._chance.random() < 0.7 or not self._history.workers:
            self._history.start()

    async def worker_sleeps(self) -> None:
        worker = await self._victim()
        seconds = self._chance.choice(ABSENCES_S)
        self._tell(f"is FROZEN for {seconds} s", worker)
        worker.process.is_frozen = True
        self._absent(worker)
        await self._after(seconds, lambda: self._wake(worker))

    async def worker_is_cut_off(self) -> None:
        worker = await self._victim()
        seconds = self._chance.choice(ABSENCES_S)
        self._tell(f"is CUT OFF for {seconds} s", worker)
        worker.process.is_cut_off = True
        self._absent(worker)
        await self._after(seconds, lambda: self._connect(worker))

    async def worker_drains(self) -> None:
        worker = await self._victim()
        self._tell("is told to stop", worker)
        self._history.lose(worker)
        worker.drain(self._chance.choice((0.1, 3.0, 30.0)))
        if self._chance.random() < 0.7 or not self._history.workers:
            self._history.start()

    async def worker_joins(self) -> None:
        if len(self._history.workers) < WORKERS_MAX:
            self._history.start()

    async def group_rebalances(self) -> None:
        self._tell("a rebalance for nothing")
        self._history.group.rebalance()

    async def broker_is_away(self) -> None:
        cluster = self._history.cluster
        if cluster.is_away:
            return
        seconds = self._chance.choice((0.1, 3.0, 7.0, 12.0))
        self._tell(f"AWAY for {seconds} s")
        cluster.is_away = True

        def back() -> None:
            self._tell("is back")
            cluster.is_away = False
            cluster.reconnect()

        await self._after(seconds, back)

    async def provider_is_away(self) -> None:
        history = self._history
        away = self._profiles.choice(
            ((history.provider,), (history.second,), (history.provider, history.second))
        )
        self._tell("the provider is AWAY")
        for provider in away:
            provider.is_away = True

        def back() -> None:
            self._tell("the provider is back")
            for provider in away:
                provider.is_away = False

        await self._after(self._chance.choice((1.0, 10.0, 20.0)), back)

    async def tool_topic_is_away(self) -> None:
        """The topic of a toolset was deleted; later a tool server makes it again."""
        missing, seconds = self._history.cluster.missing, self._chance.choice((1.0, 15.0, 60.0))
        self._tell(f"the topic of a toolset is AWAY for {seconds} s")
        missing.add(CALLS)

        def back() -> None:
            self._tell("the topic of a toolset is back")
            missing.discard(CALLS)

        await self._after(seconds, back)

    async def topics_are_cleaned(self) -> None:
        """Compaction, and the end of what was read long ago."""
        cluster = self._history.cluster
        for partition in range(self._history.partitions):
            for topic in (LEDGER, RETRIES, RUNS):
                log = cluster.log(topic.full_name(PREFIX), partition)
                log.compact(cluster.clock.now() - NULLS if self._chance.random() < 0.5 else None)
            requests = cluster.log(REQUESTS.full_name(PREFIX), partition)
            requests.delete_before(min(cluster.offsets.get(partition, 0), requests.end))
        self._tell("compaction and retention")

    async def clock_is_set(self) -> None:
        """The clock of a worker's machine is set, forth or back."""
        if self._history.workers:
            worker = self._chance.choice(self._history.workers)
            worker.machine.off_s = self._chance.choice(CLOCKS_OFF_S)
            self._tell(f"has a clock that is off by {worker.machine.off_s:.1f} s", worker)

    def _wake(self, worker: Worker) -> None:
        if worker.process.is_dead or not worker.process.is_frozen:
            return
        self._tell("WAKES", worker)
        worker.process.wake()
        self._history.group.hear_again(worker.process)

    def _connect(self, worker: Worker) -> None:
        if worker.process.is_cut_off:
            self._tell("is connected again", worker)
            worker.process.is_cut_off = False
            self._history.cluster.reconnect()
            self._history.group.hear_again(worker.process)

    def _absent(self, worker: Worker) -> None:
        worker.process.absences += 1
        self._history.group.lose_touch(worker.process)

    async def _victim(self) -> Worker:
        """Any worker, or the next where something is going on: just then much can go wrong."""
        if self._chance.random() < KILLED_AT_COMMIT:
            heard = await self._history.cluster.hear(COMMIT_WAIT_S_MAX)
            await asyncio.sleep(self._chance.choice(COMMIT_DELAYS_S))
            for worker in self._history.workers:
                if worker.process is heard:
                    return worker
        while not self._history.workers:
            await asyncio.sleep(RESTART_LOOK_S)  # poison has ended the only one
        return self._chance.choice(self._history.workers)

    async def _after(self, seconds: float, then: Callable[[], None]) -> None:
        """Either wait for its end, or let the next come on top of it."""
        if self._chance.random() < 0.5:
            self._history.later(seconds, then)
        else:
            await asyncio.sleep(seconds)
            then()

    def _tell(self, what: str, worker: Worker | None = None) -> None:
        who = worker.process.name if worker else "world"
        self._history.timeline.tell(what, who=who)
