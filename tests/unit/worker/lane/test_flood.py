"""One workflow with thousands of slow requests: the others of its partition get their answers."""

import asyncio
from typing import Any

import pytest

from answerbus.topics import REQUESTS
from answerbus.wire import format_timestamp
from services.worker.core.attempt.reply import Reply, Throttled, TimedOut
from services.worker.health.gauges import gauges
from services.worker.health.verdict import body_of, holder_of, judge
from services.worker.lane.context import Limits
from services.worker.lane.state.machine import State
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.health.watch import health_inputs
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, done, terminals, until

pytestmark = pytest.mark.wide  # many cases, each of them long

FLOOD = 2_600
CALL_S = 45.0
QUICK_S = 0.5
OTHERS = 119
UNORDERED: dict[str, Any] = {"policy": {"ordering": "none"}}
LIMITS = Limits(100, 1_000, 2_000, 32 * 1024 * 1024)


def slow_flood(request_id: str, _: int) -> tuple[float, Reply]:
    return (CALL_S if request_id.startswith("flood") else QUICK_S), answered()


def flooded(**more: Any) -> Stage:
    stage = Stage(FakeProvider(slow_flood), slots=100, limits=LIMITS)
    stage.publish(*(f"flood-{n}" for n in range(FLOOD)), ttl_s=86_400, **more)
    return stage


async def others_are_answered(stage: Stage, limit_s: float) -> None:
    others = [f"other-{n}" for n in range(OTHERS)]
    for number, name in enumerate(others):
        stage.publish(name, workflow_id=workflow_of(0, 1 + number % 17))
    began = now()
    await until(lambda: done(stage.broker, others), 300, look_s=0.25)
    assert now() - began < limit_s


@pytest.mark.parametrize(
    "budget", [{"attempts": 50}, {"attempts": 1_000_000}, {"attempts": 3_000, "tokens": 20_000}]
)
@pytest.mark.parametrize("policy", [UNORDERED, {}])
@on_virtual_time
async def test_other_workflows_of_the_partition_are_answered_at_once(
    budget: dict[str, int], policy: dict[str, Any]
) -> None:
    stage = flooded(budget=budget, **policy)
    await stage.worker.open()
    await asyncio.sleep(10)
    await others_are_answered(stage, 15)
    await stage.worker.crash()


@on_virtual_time
async def test_a_flood_of_each_of_several_workflows_leaves_room_for_the_next() -> None:
    """Once what the first of them was given while it was alone has come back."""
    stage = Stage(FakeProvider(slow_flood), slots=100, limits=LIMITS)
    for flood in range(5):
        names = (f"flood-{flood}-{n}" for n in range(500))
        stage.publish(*names, workflow_id=workflow_of(0, 30 + flood), **UNORDERED)
    await stage.worker.open()
    await asyncio.sleep(5 * CALL_S)
    await others_are_answered(stage, 40)
    await stage.worker.crash()


@on_virtual_time
async def test_a_request_that_waits_for_its_account_is_resumed_by_a_call_and_never_polls() -> None:
    """One attempt of the budget in the end: hundreds wait, and nothing runs in the meantime."""
    stage = Stage(FakeProvider(lambda *_: (CALL_S, answered())), slots=100, limits=LIMITS)
    stage.publish(*(f"r-{n}" for n in range(300)), budget={"attempts": 3}, **UNORDERED)
    await stage.worker.open()
    await until(lambda: len(stage.provider.calls) == 3)
    await asyncio.sleep(1)
    assert len(stage.worker.lane.tasks) == 3, "those that wait have no task"
    loop = asyncio.get_running_loop()
    steps = [0]
    call_at = loop.call_at

    def counted(*arguments: Any, **more: Any) -> Any:
        steps[0] += 1
        return call_at(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_at", counted)
        await asyncio.sleep(20)
    # Both the rig's poll of its broker and the lane's alarm go on, a few tens a second.
    assert steps[0] < 20 / 0.02 + 100
    await stage.end()
    ended = list(terminals(stage.broker).values())
    assert (ended.count("result"), ended.count("dead_letter")) == (3, 297)


@pytest.mark.parametrize("fault", [None, *Fault])
@on_virtual_time
async def test_all_that_a_budget_pays_for_is_called_whatever_was_reserved(
    fault: Fault | None,
) -> None:
    """Tokens are reserved at their worst case, and most of them come back with each reply."""

    def script(_: str, attempt: int) -> tuple[float, Reply]:
        replies: list[Reply] = [Throttled(2.0), TimedOut(3.0), answered()]
        return 3.0, replies[min(attempt, 3) - 1]

    stage = Stage(FakeProvider(script), slots=100, limits=LIMITS)
    budget = {"attempts": 500, "tokens": 60_000}
    stage.publish(*(f"r-{n}" for n in range(60)), budget=budget, ttl_s=3_600, **UNORDERED)
    await stage.worker.open()
    await stage.called("r-0")
    if fault:
        stage.broker.faults.append(fault)
        await asyncio.sleep(20)
        await stage.worker.until(State.OPEN)
    await stage.end()


@on_virtual_time
async def test_who_waits_for_its_account_keeps_its_deadline() -> None:
    stage = Stage(FakeProvider(lambda *_: (CALL_S, answered())), slots=100, limits=LIMITS)
    stage.publish("first", budget={"attempts": 1}, ttl_s=300, **UNORDERED)
    await stage.worker.open()
    await stage.called("first")
    stage.publish("waits", "waits-too", ttl_s=10, **UNORDERED)
    began = now()
    await until(lambda: done(stage.broker, ["waits", "waits-too"]))
    assert 9.9 < now() - began < 12
    await stage.end()


@on_virtual_time
async def test_a_worker_that_leaves_does_not_wait_for_accounts() -> None:
    stage = Stage(FakeProvider(lambda *_: (5.0, answered())), slots=100, limits=LIMITS)
    stage.publish(*(f"r-{n}" for n in range(50)), budget={"attempts": 2}, **UNORDERED)
    await stage.worker.open()
    await until(lambda: len(stage.provider.calls) == 2)
    began = now()
    await stage.worker.drain()
    assert now() - began < 10


@on_virtual_time
async def test_who_holds_a_lane_is_named_by_ready_and_metrics() -> None:
    stage = flooded(budget={"attempts": 1_000_000}, **UNORDERED)
    stage.publish("small", workflow_id=workflow_of(0, 1))
    watched = health_inputs(stage.worker.membership, stage.context)
    await stage.worker.open()
    await asyncio.sleep(10)
    verdict = judge(watched)
    since = format_timestamp(stage.broker.log(REQUESTS).records[0].at)
    assert not verdict.stuck
    assert body_of(verdict, watched)["held_by"] == {
        "0": {
            "workflow_id": workflow_of(0),
            "requests": FLOOD,
            "running": 88,
            "since": since,
            "lane_is_paused": False,
        }
    }
    samples = gauges(verdict, watched)
    found = {m.name: (labels, value) for m, labels, value in samples if "holder" in m.name}
    labels = ("0", workflow_of(0))
    assert found["answerbus_lane_holder_requests"] == (labels, FLOOD)
    assert found["answerbus_lane_holder_age_seconds"][1] == pytest.approx(10, abs=1)
    await stage.worker.crash()


@on_virtual_time
async def test_a_lane_that_is_full_names_its_largest_and_is_read_again_when_it_is_not() -> None:
    """The bytes of one workflow have a limit: beyond it the lane goes on at its pace."""
    limits = Limits(100, 1_000, 2_000, 300_000)

    stage = Stage(FakeProvider(lambda *_: (1.0, answered())), slots=100, limits=limits)
    names = [f"r-{n}" for n in range(1_200)]
    stage.publish(*names, budget={"attempts": 5_000}, **UNORDERED)
    await stage.worker.open()
    await asyncio.sleep(1)
    lane = stage.worker.lane
    holder = holder_of(lane)
    assert holder is not None
    assert holder.lane_is_paused
    assert len(lane.lane_state.queue) < 1_200
    await until(lambda: done(stage.broker, names), look_s=5.0)
    await stage.end()
    assert holder_of(stage.worker.lane) is None
