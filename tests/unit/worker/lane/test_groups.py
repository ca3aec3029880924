"""A lane that another consumer group had: left alone while that is there, then gone on with."""

import asyncio
from dataclasses import replace

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
