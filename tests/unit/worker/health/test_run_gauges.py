"""What runs tell of themselves: at `/ready` and as metrics, over a whole history."""

import asyncio
from dataclasses import replace
from typing import Any

from answerbus.registry import Registry
from services.telemetry import metrics
from services.telemetry.counts import Counts, Metric, Spread
from services.telemetry.exposition import exposition
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.core.read_latency import PartitionPosition
from services.worker.core.run.agents import Agent, Agents
from services.worker.health.gauges import gauges
from services.worker.health.verdict import body_of, judge
from services.worker.health.watched import HealthInputs
from tests.unit.worker.core.run_builders import actions, call, definition, says
from tests.unit.worker.health.watch import health_inputs
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunStage, RunWorker, run_context
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, until

SAME = actions(call(order_id="1"))


def inputs_of(stage: RunStage) -> HealthInputs:
    return health_inputs(stage.worker.membership, stage.worker.context)


def gauged(stage: RunStage, inputs: HealthInputs | None = None) -> dict[tuple[Metric, Any], float]:
    inputs = inputs or inputs_of(stage)
    return {(metric, labels): value for metric, labels, value in gauges(judge(inputs), inputs)}


async def observed(stage: RunStage) -> Counts:
    """Open its worker with an observer, and give what that counts."""
    await stage.worker.drain()
    observer = MetricsObserver({"default"}, Registry())
    around = replace(run_context(stage.provider), observer=observer)
    stage.worker = RunWorker(stage.broker, around)
    await stage.worker.open()
    return observer.counts


def spread_of(measures: Counts, tool: str) -> Spread | None:
    return measures.spreads.get((metrics.TOOL_CALL_DURATION, (tool,)))


@on_virtual_time
async def test_open_runs_are_counted_by_what_they_wait_for() -> None:
    stage = RunStage((actions(call("orders.pay", order_id="1")), actions(says("Paid."))))
    measures = await observed(stage)
    stage.publish("r-1")
    await until(lambda: stage.steps("approval_requested") != [])
    await asyncio.sleep(1)
    now = gauged(stage)
    assert now[metrics.RUNS_OPEN, ("awaits_approval",)] == 1
    assert now[metrics.RUNS_OPEN, ("waiting",)] == 0
    assert now[metrics.APPROVALS_WAITING, ()] == 1
    assert 1 <= now[metrics.APPROVAL_AGE, ()] < 5
    await stage.crash()  # the age is that of the step, and not of the worker
    measures = await observed(stage)
    await asyncio.sleep(60)
    now = gauged(stage)
    assert now[metrics.APPROVALS_WAITING, ()] == 1
    assert 61 <= now[metrics.APPROVAL_AGE, ()] < 90
    stage.cancel("r-1")
    await until(lambda: done(stage.broker, stage.names))
    await asyncio.sleep(1)
    now = gauged(stage)
    assert now[metrics.RUNS_OPEN, ("awaits_approval",)] == 0
    assert now[metrics.APPROVALS_WAITING, ()] == 0
    assert now[metrics.APPROVAL_AGE, ()] == 0
    assert measures.totals[metrics.TOOL_CALLS, ("orders.pay", "cancelled")] == 1
    assert spread_of(measures, "orders.pay") is None  # it was never sent
    await finished(stage)


@on_virtual_time
async def test_what_waits_for_a_person_is_no_old_request() -> None:
    stage = await RunStage.opened(
        "r-1", steps=(actions(call("orders.pay", order_id="1")), actions(says("Paid.")))
    )
    await until(lambda: stage.steps("approval_requested") != [])
    stage.publish("r-2")  # behind it, in the same workflow
    await until(lambda: len(stage.worker.lane.lane_state.queue) == 2)
    await asyncio.sleep(100)
    now = gauged(stage)
    assert now[metrics.APPROVAL_AGE, ()] >= 100
    assert now[metrics.OLDEST, ("0",)] == 0
    stage.cancel("r-1")
    stage.cancel("r-2")
    await until(lambda: done(stage.broker, stage.names))
    await finished(stage)


@on_virtual_time
async def test_a_marker_at_the_end_of_a_partition_is_no_lag() -> None:
    stage = await RunStage.opened("r-1", steps=(actions(says("Well.")),))
    inputs, lag = inputs_of(stage), (metrics.LANE_LAG, ("0",))
    inputs.probe.ends = {0: 2}  # the request, and a marker
    inputs.read_monitor.look({0: PartitionPosition(2, 2)})
    await until(lambda: len(stage.worker.lane.lane_state.queue) == 1)
    assert gauged(stage, inputs)[lag] == 2, "it was read, and is not done"
    await until(lambda: done(stage.broker, stage.names))
    await asyncio.sleep(1)
    assert gauged(stage, inputs)[lag] == 0
    inputs.read_monitor.look({0: PartitionPosition(1, 2)})
    assert gauged(stage, inputs)[lag] == 1, "what is there is not known"
    await finished(stage)


@on_virtual_time
async def test_steps_repeats_ends_of_calls_and_of_runs_are_counted() -> None:
    stage = RunStage((SAME, SAME, SAME, actions(says("Well."))))
    measures = await observed(stage)
    stage.publish("r-1")
    await until(lambda: done(stage.broker, stage.names))
    await asyncio.sleep(1)
    counted = {(metric, labels): n for metric, labels, n in measures.samples()}
    assert counted[metrics.TOOL_CALLS, ("orders.get", "ok")] == 1
    assert counted[metrics.TOOL_CALLS, ("orders.get", "repeated")] == 2
    assert counted[metrics.RUN_STEPS, ("support",)] == 3
    assert counted[metrics.RUN_REPEATS, ("support",)] == 1
    assert counted[metrics.RUNS_ENDED, ("support", "result", "none")] == 1
    await finished(stage)


@on_virtual_time
async def test_the_seconds_of_a_tool_call_are_from_its_first_delivery_to_its_end() -> None:
    silent_once = iter(((), ((2.0, {"kind": "ok", "value": "done"}),)))
    stage = RunStage((SAME, actions(says("Well."))), lambda _: next(silent_once))
    measures = await observed(stage)
    stage.publish("r-1")
    await until(lambda: done(stage.broker, stage.names), 100)
    spread = spread_of(measures, "orders.get")
    assert spread is not None
    assert 32 <= spread.total < 35  # the time-out of the first, and what the second took
    place = metrics.TOOL_BUCKETS_S.index(60.0)
    assert [n for n, count in enumerate(spread.buckets) if count] == [place]
    text = exposition(measures.samples(), measures.spreads).decode()
    assert 'answerbus_tool_call_duration_seconds_count{tool="orders.get"} 1.0' in text
    await finished(stage)


@on_virtual_time
async def test_what_a_model_names_freely_is_no_label() -> None:
    stage = RunStage((actions(call("orders.none", order_id="1")), actions(says("Well."))))
    measures = await observed(stage)
    stage.publish("r-1")
    await until(lambda: done(stage.broker, stage.names))
    ended = {labels for metric, labels in measures.totals if metric is metrics.TOOL_CALLS}
    assert ended == {("unknown", "unknown_tool")}
    assert all(metric is not metrics.TOOL_CALL_DURATION for metric, _ in measures.spreads)
    await finished(stage)


def test_the_digest_of_an_agent_changes_with_what_the_operator_says_of_it() -> None:
    outline = definition().model_copy(update={"tools": ()})
    one = Agents([Agent(outline, ("orders.get",))]).digests
    stricter = Agents([Agent(outline, ("orders.get",), {"orders.get": "always"})]).digests
    fewer = Agents([Agent(outline)]).digests

    assert one.keys() == {"support.v1"}
    assert len({*one.values(), *stricter.values(), *fewer.values()}) == 3


@on_virtual_time
async def test_ready_names_the_agents() -> None:
    stage = RunStage()
    inputs = inputs_of(stage)
    agents = body_of(judge(inputs), inputs)["agents"]
    assert agents == stage.worker.context.planner.agents.digests
    await stage.end()
