"""A loop that stood still: what came meanwhile has its turn before a time-out of a lane counts."""

import asyncio

import pytest

from services.worker.lane.outbox import COMMIT_TIMEOUT_S
from services.worker.lane.state.machine import State
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import VirtualLoop, on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context

CALL_S = 1.0
TIMEOUT_S = 3.0
LONG_S = 60.0


def stand_still(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.block(seconds)


@on_virtual_time
async def test_an_answer_that_came_meanwhile_is_paid_once() -> None:
    stage = await Stage.calling(
        "r-1", provider=FakeProvider(lambda *_: (CALL_S, answered())), timeout_s=TIMEOUT_S
    )
    stand_still(LONG_S)
    await stage.end()

    assert stage.provider.made_for("r-1") == [1]
    assert stage.outcomes() == ["result"]


@on_virtual_time
async def test_a_call_without_an_answer_times_out_all_the_same() -> None:
    script = FakeProvider(lambda _, attempt: (LONG_S if attempt == 1 else CALL_S, answered()))
    stage = await Stage.calling("r-1", provider=script, timeout_s=TIMEOUT_S)
    stand_still(LONG_S / 2)
    await stage.end()

    assert stage.provider.made_for("r-1") == [1, 2]


@on_virtual_time
async def test_a_commit_that_was_acknowledged_meanwhile_loses_no_lane() -> None:
    stage = Stage(FakeProvider(lambda *_: (CALL_S, answered())))
    stage.publish("r-1")
    await stage.worker.open()
    while not stage.worker.lane.calls.unused:  # its spend is being committed
        await asyncio.sleep(0.001)
    fenced = stage.broker.epochs[0]
    stand_still(COMMIT_TIMEOUT_S + 1)
    await stage.end()

    assert stage.broker.epochs[0] == fenced


@on_virtual_time
async def test_a_drain_brings_an_answer_home_that_came_meanwhile() -> None:
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (CALL_S, answered())))
    draining = asyncio.create_task(stage.worker.membership.drain(TIMEOUT_S))
    await asyncio.sleep(CALL_S / 2)
    stand_still(LONG_S)
    await draining
    await stage.worker.drain()

    assert stage.outcomes() == ["result"]


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.203, 1.0])
@on_virtual_time
async def test_a_predecessor_that_stood_still_with_us_is_not_taken_for_dead(after_s: float) -> None:
    """As a machine does that was suspended with both on it."""
    stage = Stage(FakeProvider(lambda *_: (25.0, answered())))
    stage.publish("r-1")
    stage.publish("r-2", workflow_id=workflow_of(0, 1))
    await stage.worker.open()
    await stage.called("r-1")
    await stage.called("r-2")
    other = Worker(stage.broker, context(stage.provider, "other"))
    stage.worker.revoke()
    other.assign(0)
    stage.worker.assign()
    await asyncio.sleep(after_s)
    stand_still(10.0)
    await stage.all_done()
    await other.drain()
    await stage.worker.drain()

    assert stage.outcomes() == ["result"] * 2
    assert other.lane.state is State.CLOSED


@on_virtual_time
async def test_a_lane_whose_producer_was_not_closed_in_time_opens_again() -> None:
    """The process stood still for longer than the closing may last, while it closed it."""
    stage = Stage()
    stage.publish("r-1")
    await stage.worker.open()
    shard = stage.worker.shards[-1]

    async def close() -> None:
        stand_still(COMMIT_TIMEOUT_S + 1)
        await asyncio.sleep(LONG_S)

    shard.close = close  # type: ignore[method-assign]
    stage.worker.lane.on_loss(RuntimeError("a producer that is gone"))
    await stage.worker.until(State.OPEN)
    await stage.end()
