"""A lane's lifecycle: what rebalances, lost producers and drains do to requests and money."""

import asyncio
from typing import Any

import pytest

from answerbus.cause import Cancelled
from answerbus.topics import DEAD_LETTERS
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Rejected, Reply, Throttled
from services.worker.lane.outbox import COMMIT_TIMEOUT_S
from services.worker.lane.request_task import PERMIT_S
from services.worker.lane.state.machine import State
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.virtual import VirtualLoop, on_virtual_time
from tests.unit.worker.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    done,
    events,
    final_account,
    terminals,
    until,
)


@on_virtual_time
async def test_requests_are_answered_in_order_and_the_worker_leaves() -> None:
    stage = Stage()
    stage.publish(*(f"r-{number}" for number in range(5)))
    await stage.worker.open()
    await stage.end()

    assert set(terminals(stage.broker).values()) == {"result"}
    assert stage.provider.most_running == 1, "they are of one workflow"
    assert stage.broker.offsets[0] == 5
    assert stage.worker.lane.state is State.CLOSED


@pytest.mark.parametrize("fault", Fault)
@on_virtual_time
async def test_an_answer_is_published_once_and_paid_once_whatever_becomes_of_its_commit(
    fault: Fault,
) -> None:
    stage = Stage()
    stage.publish("r-1", budget={"attempts": 1})
    await stage.worker.open()
    await stage.called("r-1")
    stage.broker.faults.append(fault)
    await asyncio.sleep(30)
    await stage.end()

    assert (stage.outcomes(), stage.provider.made_for("r-1")) == (["result"], [1])
    assert len(stage.worker.shards) == 2, "it was opened again"


@pytest.mark.parametrize("fault", Fault)
@on_virtual_time
async def test_a_spend_whose_commit_is_in_doubt_costs_nothing_as_its_call_never_began(
    fault: Fault,
) -> None:
    stage = Stage()
    await stage.worker.open()
    stage.broker.faults.append(fault)
    stage.publish("r-1", budget={"attempts": 1})
    await stage.end()

    happened = fault in {Fault.ANSWER_LOST, Fault.HANGS_AND_HAPPENS}
    assert stage.outcomes() == (["released", "result"] if happened else ["result"])
    assert final_account(stage.broker)["spent"]["attempts"] == 1


@on_virtual_time
async def test_a_call_is_told_until_when_its_permit_lasts() -> None:
    stage = Stage()
    ask, seen = stage.provider.ask, []

    async def noted(prompt: Prompt, *, timeout_s: float) -> Reply:
        seen.append((prompt.begins_by or 0.0) - now())
        return await ask(prompt, timeout_s=timeout_s)

    stage.provider.ask = noted  # type: ignore[method-assign]
    await stage.worker.open()
    stage.publish("r-1")
    await stage.end()

    assert [0 < left_s <= PERMIT_S for left_s in seen] == [True]


@on_virtual_time
async def test_a_partition_that_comes_back_goes_on_with_what_it_has() -> None:
    stage = await Stage.calling("r-1", "r-2")
    stage.worker.revoke()
    assert stage.worker.lane.state is State.SUSPENDED
    await until(lambda: done(stage.broker, ["r-1"]))
    await asyncio.sleep(5)
    assert stage.provider.made_for("r-2") == [], "revoked: nothing new is spent"
    stage.worker.assign(0)
    await stage.end()

    assert len(stage.worker.shards) == 1


@on_virtual_time
async def test_a_spend_that_is_committed_when_the_partition_is_gone_is_returned() -> None:
    stage = Stage()
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 1})
    await until(lambda: bool(stage.worker.lane.calls.unused), look_s=0.001)
    stage.worker.revoke()
    await asyncio.sleep(5)

    assert (stage.outcomes(), stage.provider.calls) == (["released"], [])
    stage.worker.assign(0)
    await stage.end()
    assert stage.outcomes() == ["released", "result"]


@pytest.mark.parametrize("ended", ["cancelled", "deadline_passed"])
@on_virtual_time
async def test_a_spend_that_is_committed_when_its_request_has_to_end_is_returned(
    ended: str,
) -> None:
    """With its place among the calls: the next request has it."""
    stage = Stage(slots=1)
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 1})
    lane = stage.worker.lane
    await until(lambda: bool(lane.calls.unused), look_s=0.001)
    (lane_request,) = lane.lane_state.queue.requests.values()
    if ended == "cancelled":
        lane.lane_state.queue.cancel(lane_request, Cancelled(by="ops", reason="enough"))
    else:
        lane_request.deadline = lane.context.clock.now()
    stage.publish("r-2")
    await stage.end()

    assert stage.outcomes() == ["released", "result"]
    assert [name for name, *_ in stage.provider.calls] == ["r-2"]
    (letter,) = events(stage.broker, DEAD_LETTERS)
    assert letter["cause"]["kind"] == ended


@on_virtual_time
async def test_an_orphaned_lane_that_is_assigned_again_loses_no_request() -> None:
    """Its tasks without a call were ended, so that its state cannot simply go on."""
    stage = Stage(slots=1)
    stage.publish("called")
    stage.publish("waiting", workflow_id=workflow_of(0, 1))
    await stage.worker.open()
    await stage.called("called")
    stage.worker.revoke()
    stage.worker.assign()
    await asyncio.sleep(0.1)
    stage.worker.revoke()
    stage.worker.assign(0)
    await stage.end()

    assert stage.outcomes() == ["result", "result"]


@pytest.mark.parametrize("reply", [Throttled(0.5), Rejected("profile", 401, None), answered()])
@on_virtual_time
async def test_an_orphan_saves_its_answers_and_holds_no_slot_afterwards(reply: Any) -> None:
    stage = await Stage.calling(
        "r-1", "r-2", provider=FakeProvider(lambda *_: (1.0, reply)), slots=1
    )
    orphan = stage.worker.lane
    stage.worker.revoke()
    stage.worker.assign()
    await until(lambda: orphan.state is State.CLOSED)

    assert (stage.context.slots.reserved, stage.context.slots.calling) == (0, 0)
    assert len(stage.outcomes()) == 1
    assert final_account(stage.broker)["in_flight"] == []
    await stage.worker.drain()


@on_virtual_time
async def test_whoever_takes_over_shuts_the_old_lane_out() -> None:
    stage = Stage(FakeProvider(lambda *_: (30.0, answered())))
    stage.publish("r-1", budget={"attempts": 2})
    await stage.worker.open()
    await stage.called("r-1")
    zombie = stage.worker.lane
    other = Worker(stage.broker, context(stage.provider, "other"))
    other.assign(0)
    await other.until(State.OPEN)
    await until(lambda: zombie.state is State.OPENING, 60)
    await asyncio.sleep(20)
    assert zombie.state is State.OPENING, "membership is not proved, so nobody is fenced back"
    await stage.all_done()
    await stage.worker.drain()
    await other.drain()

    assert stage.outcomes() == ["unknown", "result"]
    audit(stage.broker, stage.provider)


@on_virtual_time
async def test_a_drain_waits_for_calls_and_returns_what_was_not_used() -> None:
    stage = await Stage.calling("called", provider=FakeProvider(lambda *_: (5.0, answered())))
    stage.publish("spent", workflow_id=workflow_of(0, 1))
    await until(lambda: bool(stage.worker.lane.calls.unused), look_s=0.001)
    began = now()
    await stage.worker.drain(30)

    assert 4 < now() - began < 6
    assert sorted(stage.outcomes()) == ["released", "result"]
    assert final_account(stage.broker, workflow_of(0, 1))["spent"]["attempts"] == 0
    assert stage.provider.made_for("spent") == []


@on_virtual_time
async def test_a_drain_does_not_wait_for_what_will_not_be_called_again() -> None:
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (1.0, Throttled(3.0))))
    began = now()
    await stage.worker.drain(30)

    assert now() - began < 3
    assert stage.outcomes() == ["released"]


@on_virtual_time
async def test_rebalances_during_a_drain_bring_no_new_work() -> None:
    stage = await Stage.calling("r-1", "r-2", provider=FakeProvider(lambda *_: (5.0, answered())))
    draining = asyncio.create_task(stage.worker.membership.drain(30))
    for _ in range(3):
        await asyncio.sleep(0.5)
        stage.worker.revoke()
        stage.worker.assign(0, 1)
    await draining

    assert [called for called, *_ in stage.provider.calls] == ["r-1"]
    assert set(stage.worker.membership.lifecycles) == {0}, "and no lane that nobody would drain"
    assert terminals(stage.broker) == {"r-1": "result"}
    await stage.worker.drain()


@pytest.mark.parametrize("fault", Fault)
@on_virtual_time
async def test_a_drain_publishes_answers_also_if_the_producer_is_lost_meanwhile(
    fault: Fault,
) -> None:
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (5.0, answered())))
    draining = asyncio.create_task(stage.worker.membership.drain(30))
    await asyncio.sleep(1)
    stage.publish("r-2", workflow_id=workflow_of(0, 1))
    stage.broker.faults.append(fault)
    await draining

    assert terminals(stage.broker) == {"r-1": "result"}
    assert stage.outcomes() == ["result"]
    assert [called for called, *_ in stage.provider.calls] == ["r-1"]
    await stage.worker.drain()


@pytest.mark.parametrize("gap_s", [0.0, 0.002, 0.004])
@pytest.mark.parametrize("pause_s", [0.0, 0.003, 0.006, 0.011, 0.02, 0.03])
@on_virtual_time
async def test_rebalances_at_any_moment_of_an_opening_leave_one_open_lane(
    pause_s: float, gap_s: float
) -> None:
    stage = Stage()
    stage.publish("r-1")
    for number in range(7):
        stage.worker.assign(0)
        await asyncio.sleep(pause_s)
        stage.worker.revoke()
        await asyncio.sleep(gap_s)
        if number % 2:
            stage.worker.assign()
            await asyncio.sleep(gap_s)
    stage.worker.assign(0)
    await stage.end()
    await asyncio.sleep(1)

    assert all(shard.is_closed for shard in stage.worker.shards)


@on_virtual_time
async def test_a_lane_has_one_producer_at_a_time() -> None:
    """Else the older could shut the newer out, having been slower to start."""
    stage = Stage()
    most = 0
    for pause_s in (0.001, 0.003, 0.006, 0.008, 0.012, 0.017, 0.021):
        stage.worker.assign(0)
        await asyncio.sleep(pause_s)
        stage.worker.revoke()
        stage.worker.assign(0)
        await asyncio.sleep(0.001)
        most = max(most, sum(not shard.is_closed for shard in stage.worker.shards))
    await stage.worker.until(State.OPEN)
    await stage.worker.drain()

    assert most == 1


@on_virtual_time
async def test_a_lane_that_is_revoked_while_it_opens_fences_no_other() -> None:
    stage = Stage()
    stage.worker.assign(0)
    await asyncio.sleep(0.002)
    stage.worker.revoke()
    await asyncio.sleep(60)

    assert stage.broker.epochs[0] == 0
    assert all(shard.is_closed for shard in stage.worker.shards)
    await stage.worker.drain()


@pytest.mark.parametrize("blocked_s", [6.0, 12.0])
@on_virtual_time
async def test_a_blocked_loop_makes_no_late_call_and_loses_no_attempt(blocked_s: float) -> None:
    """Permits expire, and commits time out: at worst the lane is opened again."""
    stage = Stage(FakeProvider(lambda *_: (2.0, answered())))
    stage.publish("called", budget={"attempts": 1})
    await stage.worker.open()
    await stage.called("called")
    stage.publish("spent", workflow_id=workflow_of(0, 1), budget={"attempts": 1})
    await until(lambda: bool(stage.worker.lane.calls.unused), look_s=0.001)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.block(blocked_s)
    await stage.end()

    assert stage.provider.made_for("called") == [1]
    assert sorted(stage.outcomes()) == ["released", "result", "result"]
    assert set(terminals(stage.broker).values()) == {"result"}


@pytest.mark.parametrize("method", ["fence", "read", "commit", "close"])
@pytest.mark.parametrize("is_open", [True, False])
@on_virtual_time
async def test_an_unrequested_cancellation_stops_no_lane(method: str, is_open: bool) -> None:
    """Futures of a client library are cancelled by it too, and the error runs through its caller.

    A lane that took it for its own cancellation stayed in `opening` for good, without a word.
    """
    stage = Stage()
    stage.publish("r-1", "r-2")
    if is_open:
        await stage.worker.open()
        stage.broker.faults.append(Fault.REFUSED)
    stage.broker.self_cancelled.append(method)
    if not is_open:
        await stage.worker.open()
    await stage.end()

    assert stage.broker.self_cancelled == []
    assert set(stage.outcomes()) <= {"result", "released"}


@on_virtual_time
async def test_a_commit_that_ignores_cancellation_holds_its_lane_no_longer_than_another() -> None:
    """The client waits on after the time-out; a new producer fences what it may still write."""
    stage = Stage()
    await stage.worker.open()
    stage.broker.faults.append(Fault.IGNORED)
    stage.publish("r-1")
    await until(lambda: stage.provider.made_for("r-1") != [], 3 * COMMIT_TIMEOUT_S)
    await stage.end()

    assert stage.outcomes() == ["result"]
