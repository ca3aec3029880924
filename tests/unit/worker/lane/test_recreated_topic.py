"""A requests topic that is created again while calls are in flight: its new records are others."""

import asyncio

import pytest

from answerbus.topics import REQUESTS
from services.worker.adapters.kafka.position_check import TopicRecreated
from services.worker.lane.state.machine import State
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context, terminals, until

NEW_CALL_S = 100.0


async def made_again_during_a_call(stage: Stage) -> None:
    """The lane is open again, and the call of `old` goes on."""
    stage.publish("old")
    await stage.worker.open()
    await stage.called("old")
    log = stage.broker.log(REQUESTS)
    log.records, log.end, stage.broker.offsets[0] = [], 0, 0
    stage.worker.lane.begin_again(TopicRecreated())
    await stage.worker.until(State.OPEN)


@pytest.mark.parametrize("old_call_s", [10.0, 40.0])
@on_virtual_time
async def test_a_request_at_the_offset_of_a_call_in_flight_is_not_done_with_it(
    old_call_s: float,
) -> None:
    """Be the call settled before the lane has read that request, or after."""
    seconds = {"old": old_call_s, "new-0": NEW_CALL_S}
    provider = FakeProvider(lambda name, _: (seconds.get(name, 1.0), answered()))
    stage = Stage(provider, timeout_s=2 * NEW_CALL_S)
    await made_again_during_a_call(stage)
    await asyncio.sleep(20)
    stage.publish("new-0", workflow_id=workflow_of(0, 1))
    stage.publish("new-1", workflow_id=workflow_of(0, 2))
    await stage.called("new-0")
    await until(lambda: terminals(stage.broker).keys() == {"old", "new-1"})
    await stage.worker.crash()

    other = Worker(stage.broker, context(provider, "other", timeout_s=2 * NEW_CALL_S))
    await other.open()
    await stage.all_done()
    await other.drain()


@pytest.mark.parametrize("before", [0, 1])
@on_virtual_time
async def test_a_copy_in_the_new_topic_keeps_a_request_whose_record_is_gone(before: int) -> None:
    """At the same offset or at another one, as where publishers send all again."""
    stage = Stage(FakeProvider(lambda *_: (NEW_CALL_S, answered())), timeout_s=2 * NEW_CALL_S)
    await made_again_during_a_call(stage)
    for number in range(before):
        stage.publish(f"new-{number}", workflow_id=workflow_of(0, 1))
    stage.publish("old")
    await asyncio.sleep(5)
    await stage.worker.crash()

    other = Worker(stage.broker, context(stage.provider, "other", timeout_s=2 * NEW_CALL_S))
    await other.open()
    await stage.all_done()
    await other.drain()
