"""A lane that another consumer group had: left alone while that is there, then gone on with."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from services.worker.core.budget.closed import IdMemory
from services.worker.lane.context import Limits
from services.worker.lane.state.machine import State
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import Worker, until


@on_virtual_time
async def test_a_lane_of_another_group_is_left_alone_and_then_gone_on_with() -> None:
    members = {"theirs": 1}
    committed: dict[tuple[str, int], int] = {}

    async def members_of(group: str) -> int:
        return members[group]

    async def offset_of(group: str, partition: int) -> int:
        return committed[group, partition]

    stage = Stage()
    stage.publish("r-1", "r-2")
    theirs = Worker(stage.broker, replace(stage.context, group="theirs"))
    await theirs.open()
    await stage.all_done()
    await theirs.drain()
    committed["theirs", 0] = stage.broker.offsets.pop(0)  # ours has none
    epoch, calls = stage.broker.epochs[0], len(stage.provider.calls)

    beside = replace(stage.context, group="ours", members_of=members_of, offset_of=offset_of)
    ours = Worker(stage.broker, beside)
    ours.assign(0)
    await until(lambda: ours.lifecycle.stuck is not None)
    await asyncio.sleep(60)
    assert "workers of the consumer group theirs have it" in (ours.lifecycle.stuck or "")
    assert stage.broker.epochs[0] == epoch, "nobody was fenced"

    members["theirs"] = 0
    stage.broker.offsets.clear()
    stage.publish("r-3")
    await ours.until(State.OPEN)
    await stage.all_done()
    await ours.drain()
    await stage.worker.drain()
    assert len(stage.provider.calls) == calls + 1
    assert ours.context.counters.duplicates == 0, "what is done is not read again"


@on_virtual_time
async def test_an_idle_lane_that_moves_within_the_new_group_reads_nothing_again() -> None:
    """Its second worker found no offset of its group, and asked all that was forgotten again."""
    limits = Limits(9, 9, 9, 10_000, id_memory=IdMemory.lasting(timedelta(minutes=1)))
    stage = Stage(limits=limits)
    stage.publish("r-1")
    theirs = Worker(stage.broker, replace(stage.context, group="theirs"))
    await theirs.open()
    await stage.all_done()
    await asyncio.sleep(600)  # its id is forgotten
    await theirs.drain()
    committed = stage.broker.offsets.pop(0)

    async def offset_of(group: str, _: int) -> int:
        return {"theirs": committed}[group]

    ours = replace(stage.context, group="ours", offset_of=offset_of)
    for worker in (Worker(stage.broker, ours), Worker(stage.broker, ours)):
        await worker.open()
        await worker.drain()

    assert stage.broker.offsets == {0: committed}
    await stage.end()
