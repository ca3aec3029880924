"""A partition that moves while calls are in flight: the new owner waits, for a bounded time."""

import asyncio

import pytest

from services.worker.lane.context import Limits
from services.worker.lane.opening import SILENCE_S
from services.worker.lane.state.machine import STAY_S_MAX, State
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, audit, context, until

pytestmark = pytest.mark.wide

HANDOVER_S = 30.0
DRAIN_S = 40.0
AT_ONCE_S = 5.0
ABANDONED_S = STAY_S_MAX[State.ABANDONED]


async def moved(stage: Stage, *, dead: bool = False, name: str = "other") -> Worker:
    """Another worker is given the partition while the first one's calls are in flight."""
    stage.publish("r-1", "r-2")
    stage.publish("r-3", workflow_id=workflow_of(0, 1))
    await stage.worker.open()
    await stage.called("r-1")
    await stage.called("r-3")
    other = Worker(stage.broker, context(stage.provider, name))
    if dead:
        await stage.worker.crash()
    else:
        stage.worker.revoke()
    other.assign(0)
    if not dead:
        stage.worker.assign()
    return other


async def finished_by(stage: Stage, *workers: Worker) -> None:
    """All requests get their outcome, these workers stop, and no promise was broken."""
    await stage.all_done()
    for worker in workers:
        await worker.drain()
    audit(stage.broker, stage.provider)


async def stops_at_once(stage: Stage, stopping: asyncio.Task[None], other: Worker) -> None:
    """The worker of the stage waits for nothing, and the other one finishes all."""
    began = now()
    await stopping
    assert now() - began < AT_ONCE_S
    await finished_by(stage, other)


@pytest.mark.parametrize(
    ("takes_s", "name"), [(0.2, "other"), (5.0, "other"), (25.0, "other"), (5.0, "me")]
)
@on_virtual_time
async def test_a_predecessor_that_is_alive_brings_its_calls_home(takes_s: float, name: str) -> None:
    """Also one of the same name: each worker in a container may be process 1 of its host."""
    stage = Stage(FakeProvider(lambda *_: (takes_s, answered())))
    other = await moved(stage, name=name)
    await finished_by(stage, other, stage.worker)

    assert sorted(call[:2] for call in stage.provider.calls) == [
        ("r-1", 1),
        ("r-2", 1),
        ("r-3", 1),
    ]
    assert stage.outcomes() == ["result"] * 3


@on_virtual_time
async def test_a_dead_predecessor_is_waited_for_only_until_its_silence_tells() -> None:
    stage = Stage(FakeProvider(lambda *_: (25.0, answered())))
    other = await moved(stage, dead=True)
    began = now()
    await other.until(State.OPEN)

    assert SILENCE_S <= now() - began <= SILENCE_S + 1
    await stage.all_done()
    await other.drain()
    assert sorted(stage.outcomes()) == ["result"] * 3 + ["unknown"] * 2


@pytest.mark.parametrize("order", ["lost, drained", "drained, lost"])
@on_virtual_time
async def test_a_worker_that_stops_does_not_wait_for_a_lane_that_another_has(order: str) -> None:
    """Without a producer its calls cannot be settled there; their new owner writes them off."""
    stage = Stage(FakeProvider(lambda *_: (25.0, answered())))
    other = await moved(stage)
    for what in order.split(", "):
        if what == "lost":
            stage.worker.lane.on_loss(ConnectionError("the broker is away"))
        else:
            draining = asyncio.create_task(stage.worker.drain(DRAIN_S))
            await asyncio.sleep(0.1)
    await stops_at_once(stage, draining, other)


@on_virtual_time
async def test_a_lane_that_opens_while_its_worker_stops_gives_up_when_another_gets_it() -> None:
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (25.0, answered())))
    stage.broker.hangs = True
    stage.worker.lane.on_loss(ConnectionError("the broker is away"))
    draining = asyncio.create_task(stage.worker.drain(DRAIN_S))
    await asyncio.sleep(0.1)
    assert stage.worker.lane.state is State.DRAINING_REOPENING
    stage.broker.hangs = False
    other = Worker(stage.broker, context(stage.provider, "other"))
    other.assign(0)
    stage.worker.assign()
    await stops_at_once(stage, draining, other)


@on_virtual_time
async def test_a_predecessor_that_dies_on_the_way_is_not_waited_for_any_longer() -> None:
    stage = Stage(FakeProvider(lambda *_: (25.0, answered())))
    other = await moved(stage)
    await asyncio.sleep(10)
    assert other.lane.state is State.OPENING
    await stage.worker.crash()
    await other.until(State.OPEN, SILENCE_S + 1)
    await other.drain()


@on_virtual_time
async def test_calls_that_take_too_long_are_given_up() -> None:
    stage = Stage(FakeProvider(lambda *_: (50.0, answered())))
    other = await moved(stage)
    began = now()
    await other.until(State.OPEN)

    assert HANDOVER_S <= now() - began <= HANDOVER_S + 1
    assert Limits(1, 1, 1, 1).handover_s == HANDOVER_S
    await finished_by(stage, other, stage.worker)


@pytest.mark.parametrize("lost_first", [True, False])
@on_virtual_time
async def test_a_partition_that_comes_back_finds_the_calls_that_could_not_be_settled(
    *, lost_first: bool
) -> None:
    """The broker was away while the partition went elsewhere, where nobody opened it."""
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (8.0, answered())))
    stage.broker.unreachable = True
    if lost_first:
        stage.publish("r-2", workflow_id=workflow_of(0, 1))
        await until(lambda: stage.worker.lane.state is State.OPENING)
    stage.worker.revoke()
    stage.worker.assign()
    await asyncio.sleep(ABANDONED_S / 2)
    stage.broker.unreachable = False
    stage.worker.assign(0)
    await stage.end()

    assert set(stage.outcomes()) == {"result"}


@on_virtual_time
async def test_an_orphan_that_cannot_settle_lets_go_in_the_end() -> None:
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (8.0, answered())))
    orphan = stage.worker.lane
    stage.broker.unreachable = True
    stage.worker.revoke()
    stage.worker.assign()
    await until(lambda: orphan.state is State.CLOSED, ABANDONED_S + 11)

    assert orphan.tasks == {}
    stage.broker.unreachable = False
    stage.worker.assign(0)
    await stage.end()
    assert sorted(stage.outcomes()) == ["result", "unknown"]


@on_virtual_time
async def test_a_lane_that_was_fenced_holds_nothing_any_more() -> None:
    """Its successor has written its calls off: they keep neither a slot nor a worker that stops."""
    stage = Stage(FakeProvider(lambda *_: (2 * HANDOVER_S, answered())))
    other = await moved(stage)
    await other.until(State.OPEN, HANDOVER_S + 10)
    fenced = stage.worker.lane
    await until(lambda: fenced.state is State.CLOSED, 1.0)

    assert fenced.tasks == {}
    assert stage.context.slots.reserved == 0
    began = now()
    await stage.worker.drain()
    assert now() - began < 1.0
    await finished_by(stage, other)


@on_virtual_time
async def test_what_moves_before_the_group_has_settled_has_nothing_to_bring_home() -> None:
    """The first process of a command has all partitions for a moment; it opens none of them."""
    stage = Stage(FakeProvider(lambda *_: (25.0, answered())))
    stage.publish("r-1")
    ours, other = stage.worker, Worker(stage.broker, context(stage.provider, "other"))
    ours.context.siblings.settled.clear()
    ours.assign(0)
    await asyncio.sleep(1.0)
    assert (ours.lane.state, stage.broker.epochs[0]) == (State.OPENING, 0)

    ours.revoke()
    began = now()
    other.assign(0)
    ours.assign()
    ours.context.siblings.settled.set()
    await other.until(State.OPEN)
    assert now() - began < 1.0
    await finished_by(stage, other, ours)

    assert [call[:2] for call in stage.provider.calls] == [("r-1", 1)]
