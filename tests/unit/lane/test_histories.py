"""Seeded histories of faults: whatever happens, the promises hold once everything is done."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from answerbus.topics import RETRIES
from services.worker.core.reply import (
    CallFacts,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.lane.lane import State
from tests.unit.builders import answered, workflow_of
from tests.unit.lane.fakes import Broker, Fault
from tests.unit.lane.virtual import VirtualLoop, run
from tests.unit.lane.world import FakeProvider, Worker, audit, context, done, publish, until

REQUESTS_MADE = 40
FAULTS_MADE = 25
SLOTS = 8
WORKFLOWS = [workflow_of(0, number) for number in range(6)]
REPLIES: list[Reply] = [
    Refused("no", CallFacts()),
    Truncated(100, CallFacts()),
    TimedOut(60.0),
    Unavailable(500, ran=True),
    Unavailable(None, ran=False),
    Throttled(0.0),
    Throttled(2.0),
    Throttled(20.0),
    Throttled(None),
    Rejected("request", 400, "bad"),
    Rejected("profile", 401, "key"),
]


@dataclass
class History:
    """One run: publications, faults and rebalances in an order that the seed decides."""

    seed: int
    broker: Broker = field(default_factory=Broker)
    workers: list[Worker] = field(default_factory=list)
    told: list[str] = field(default_factory=list)  # a timeline, for whoever reads a failure

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.provider = FakeProvider(self.reply)

    def reply(self, request_id: str, attempt: int) -> tuple[float, Reply | BaseException]:
        chance = random.Random(f"{self.seed} {request_id} {attempt}")
        delay_s = chance.choice([0.0, 0.01, 1.0, 5.0, 100.0 if chance.random() < 0.2 else 0.5])
        if chance.random() < 0.02:
            return delay_s, RuntimeError("a bug of the adapter")
        return delay_s, chance.choice(REPLIES) if chance.random() < 0.4 else answered()

    def tell(self, what: str) -> None:
        self.told.append(f"{asyncio.get_running_loop().time() - 1000:8.3f} {what}")

    def new_worker(self) -> Worker:
        worker = Worker(
            self.broker, context(self.provider, f"worker-{len(self.told)}", slots=SLOTS)
        )
        self.workers.append(worker)
        return worker

    async def go(self) -> None:
        self.new_worker()
        self.new_worker()
        self.rebalance()
        publishing = asyncio.create_task(self.publish())
        for _ in range(FAULTS_MADE):
            await asyncio.sleep(self.chance.choice([0.001, 0.01, 0.1, 1.0, 7.0]))
            await self.something_happens()
        await publishing
        await self.calm_down()
        audit(self.broker, self.provider)

    async def publish(self) -> None:
        for number in range(REQUESTS_MADE):
            more = {"policy": {"ordering": "none"}} if self.chance.random() < 0.2 else {}
            publish(
                self.broker,
                f"r-{number}",
                self.chance.choice(WORKFLOWS),
                ttl_s=self.chance.choice([20, 300, 3_600]),
                budget={"attempts": self.chance.choice([1, 3, 30])},
                **more,
            )
            if self.chance.random() < 0.5:
                await asyncio.sleep(self.chance.random())

    async def something_happens(self) -> None:
        await self.chance.choice(
            [
                self.commit_fails,
                self.commit_fails,
                self.commit_fails,
                self.worker_dies,
                self.worker_leaves,
                self.worker_joins,
                self.flicker,
                self.loop_blocks,
                self.broker_is_away,
                self.topics_are_compacted,
            ]
        )()

    async def commit_fails(self) -> None:
        fault = self.chance.choice(list(Fault))
        self.broker.faults.extend([None] * self.chance.randrange(3) + [fault])
        self.tell(f"a commit: {fault.name}")

    async def worker_dies(self) -> None:
        worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        self.tell(f"{worker.context.worker} is killed")
        await worker.crash()
        self.new_worker()
        self.rebalance()

    async def worker_leaves(self) -> None:
        worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        self.tell(f"{worker.context.worker} drains")
        draining = asyncio.create_task(worker.drain(self.chance.choice([0.1, 3.0, 30.0])))
        self.new_worker()
        if self.chance.random() < 0.5:
            await draining
        self.rebalance(also=[worker] if not draining.done() else [])
        await draining
        self.rebalance()

    async def worker_joins(self) -> None:
        self.rebalance()

    async def flicker(self) -> None:
        """Rebalances in a row, as fast as a group can have them."""
        for _ in range(self.chance.randrange(2, 5)):
            self.rebalance()
            await asyncio.sleep(self.chance.choice([0, 0.001, 0.006, 0.02]))

    async def loop_blocks(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.tell("the loop is blocked")
        loop.block(self.chance.choice([6.0, 12.0]))

    async def broker_is_away(self) -> None:
        self.tell("the broker is away")
        self.broker.unreachable = True
        await asyncio.sleep(self.chance.choice([0.1, 3.0]))
        self.broker.unreachable = False

    async def topics_are_compacted(self) -> None:
        self.broker.compact(RETRIES)
        self.tell("compaction")

    def rebalance(self, also: list[Worker] | None = None) -> None:
        """Eager: all are revoked, then one of them is given the partition."""
        members = self.workers + (also or [])
        owner = self.chance.choice(members)
        self.tell(f"{owner.context.worker} is assigned")
        for worker in members:
            worker.revoke()
        for worker in members:
            if worker is not owner:
                worker.assign()
        owner.assign(0)

    async def calm_down(self) -> None:
        self.tell("calm")
        self.broker.faults.clear()
        names = {f"r-{number}" for number in range(REQUESTS_MADE)}
        await until(lambda: done(self.broker, names), limit_s=3 * 3_600, look_s=1.0)
        await asyncio.sleep(120)  # for the calls of orphans, whose answers nobody wants
        for worker in self.workers:
            assert_nothing_is_held(worker)
            await worker.drain()


def assert_nothing_is_held(worker: Worker) -> None:
    """Neither slots nor tickets, tasks or spends."""
    gate = worker.context.planner.backends["default"].gate
    slots = worker.context.slots
    assert (slots.placed, slots.calling, gate.placed, gate.calling) == (0, 0, 0, 0)
    for life in worker.membership.lives.values():
        lane = life.lane
        assert lane.tasks == {}
        if lane.state is State.OPEN:
            assert (lane.calls, lane.unused) == ({}, {})
            assert (len(lane.books.queue), lane.books.queue.running) == (0, 0)
            assert lane.books.watermark.committable == lane.books.watermark.position


@pytest.mark.parametrize("seed", range(20))
def test_promises_hold_over_any_history(seed: int) -> None:
    history: list[History] = []

    async def main() -> None:
        history.append(History(seed))
        await history[0].go()

    try:
        run(main())
    except BaseException as error:
        error.add_note("\n".join(history[0].told))
        raise
    for worker in history[0].workers:
        assert all(life.lane.state is State.CLOSED for life in worker.membership.lives.values())
        assert all(shard.is_closed for shard in worker.shards), "no producer leaks"
