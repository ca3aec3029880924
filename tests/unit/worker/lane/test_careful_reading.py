"""Records that are read one at a time, each under a mark: none of them is passed by."""

import asyncio

from services.worker.lane.recovery import STABLE_S
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import until


@on_virtual_time
async def test_records_that_come_while_one_is_read_alone_come_again() -> None:
    """A rebalance resumed the partition, and the lane left its care before that one was read."""
    stage = Stage()
    await stage.worker.open()
    lane = stage.worker.lane
    lane.opened.is_careful = True
    async with lane.context.watch:  # another lane of the worker has its mark
        stage.publish("r-1", "r-2", "r-3")
        await until(lambda: lane.reading is not None)
        stage.worker.revoke()
        await stage.worker.open()
        await asyncio.sleep(STABLE_S)
        stage.publish("r-4")
        await asyncio.sleep(1)
    await stage.end()
