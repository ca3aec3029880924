"""Results of tools that are in their topic while the worker is slow to read them."""

import asyncio
from typing import Any
from unittest import mock

from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunConsumer, RunStage
from tests.unit.worker.lane.virtual import on_virtual_time


@on_virtual_time
async def test_a_result_that_came_in_time_counts_though_the_worker_reads_it_late() -> None:
    """A slow machine: the call's time is over, and its result is in the topic unread."""
    getmany = RunConsumer.getmany

    loop, answer_s, read_s = asyncio.get_running_loop(), 25.0, 40.0
    stage = RunStage(
        (actions(call()), actions(says("Well."))),
        lambda _: [(answer_s, {"kind": "ok", "value": "done"})],
    )
    await stage.worker.open()
    new_run = loop.time()

    async def slow(consumer: RunConsumer, **asked: Any) -> Any:
        is_slow = answer_s - 5 < loop.time() - new_run < read_s
        return await (asyncio.sleep(0.1, {}) if is_slow else getmany(consumer, **asked))

    with mock.patch.object(RunConsumer, "getmany", slow):
        stage.publish("r-1")
        await finished(stage)

    assert stage.tools.ran == ["r-1.call.1.0/1"]
    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "ok", "value": "done"}
