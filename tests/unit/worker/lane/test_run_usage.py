"""What a run has used is what all of its attempts have used, also those that were not accepted."""

import asyncio

import pytest

from answerbus.topics import ATTEMPTS, RESULTS, RETRIES
from tests.unit.worker.core.run_builders import actions, call, says, thinks
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import events, until

pytestmark = pytest.mark.wide


@pytest.mark.parametrize("is_killed", [False, True])
@on_virtual_time
async def test_attempts_that_were_not_accepted_are_counted(*, is_killed: bool) -> None:
    """Two of the first step, and one of the second; a successor takes over between them."""
    answers = [actions(thinks("hm")), actions(call()), actions(thinks("hm"))]
    stage = RunStage((*answers, actions(says("Done."))))
    stage.provider.in_order = True
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: events(stage.broker, RETRIES) != [])
    if is_killed:
        await stage.crash()
        await stage.worker.open()
    await until(lambda: stage.steps("tool_ended") != [])
    if is_killed:
        await stage.crash()
        await stage.worker.open()
    await asyncio.sleep(1)
    await finished(stage)

    (result,) = events(stage.broker, RESULTS)
    used = [attempt["usage"] for attempt in events(stage.broker, ATTEMPTS)]
    assert len(used) >= 4
    fields = {name: sum(one[name] or 0 for one in used) for name in used[0]}
    assert fields["input_tokens"] > 0
    assert result["run"]["usage"] == fields
