"""The gauges of this moment, and the counters that lanes keep themselves."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import get_args

from services.telemetry import metrics
from services.telemetry.counts import Sample
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.request.life import RequestState
from services.worker.core.run.run import RunStage
from services.worker.health.reasons import not_read
from services.worker.health.verdict import Verdict
from services.worker.health.watched import HealthInputs
from services.worker.lane.lane import Lane
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.machine import State

# Where a request waits for its calls, its children, or another of its workflow.
_SET_ASIDE = {RequestState.AWAITING_TOOLS, RequestState.WAITING}


def gauges(verdict: Verdict, inputs: HealthInputs) -> Iterator[Sample]:
    counters = inputs.context.counters
    yield metrics.DUPLICATES, (), counters.duplicates
    yield metrics.FORWARDED, (), counters.forwarded
    yield metrics.UNREADABLE, (), counters.unreadable
    yield metrics.LOST_TO_RETENTION, (), counters.lost_to_retention
    yield metrics.IGNORED_RESULTS, (), counters.ignored_signals
    for toolset, count in inputs.tools.refusals.items():
        yield metrics.CARDS_REFUSED, (toolset,), count
    for toolset, count in inputs.tools.stopped_by_toolset.items():
        yield metrics.TOOLS_STOPPED, (toolset,), count
    yield metrics.HELD, (), counters.held
    yield metrics.ALLOWED, (), inputs.context.slots.limit
    yield metrics.KAFKA_SILENCE, (), inputs.probe.silent_s
    yield metrics.NOT_READ, (), not_read(inputs) is not None
    yield metrics.STALLS, (), inputs.loop_monitor.stalls
    yield metrics.LATENESS, (), inputs.loop_monitor.worst_s()
    yield metrics.TASKS, (), len(asyncio.all_tasks())
    yield metrics.READY, (), verdict.ready
    yield metrics.SETTINGS_REFUSED, (), inputs.settings.refused is not None
    ahead_s = inputs.clock_ahead_s()
    if ahead_s is not None:
        yield metrics.CLOCK_AHEAD, (), ahead_s
    for name, backend in inputs.context.planner.backends.items():
        yield metrics.IN_FLIGHT, (name,), backend.limiter.in_flight
        yield metrics.PROFILE_UNHEALTHY, (name,), name in verdict.unhealthy
        yield metrics.PROFILE_REJECTED, (name,), backend.limiter.setup_fault is not None
        yield metrics.BREAKER_OPEN, (name,), backend.limiter.breaker.is_open
        yield metrics.PROFILE_THROTTLED, (name,), backend.limiter.is_throttled
        yield metrics.SILENCE, (name,), backend.limiter.silent_s
    yield from _of_runs(inputs)
    yield from _of_budgets(inputs)
    now = inputs.context.clock.now()
    for partition, holder in verdict.held.items():
        labels = str(partition), holder.workflow_id
        yield metrics.HELD_REQUESTS, labels, holder.requests
        yield metrics.HELD_AGE, labels, max((now - holder.since).total_seconds(), 0.0)
    for partition, lifecycle in inputs.membership.lifecycles.items():
        yield metrics.LANE_STUCK, (str(partition),), partition in verdict.stuck
        yield metrics.FAILED_OPENINGS, (str(partition),), lifecycle.lane.failed_openings
        for state in State:
            is_in = lifecycle.lane.state is state
            yield metrics.LANE_STATE, (str(partition), state.name.lower()), is_in
        if lifecycle.lane.state is State.OPEN:
            yield from _of_open(lifecycle.lane, inputs)


def _opened(inputs: HealthInputs) -> list[LaneState]:
    lanes = (lifecycle.lane for lifecycle in inputs.membership.lifecycles.values())
    return [lane.lane_state for lane in lanes if lane.state is State.OPEN]


def _of_budgets(inputs: HealthInputs) -> Iterator[Sample]:
    now, found = inputs.context.clock.now(), Counter[str]()
    for lane_state in _opened(inputs):
        found += lane_state.budgets.nearly_spent(now)
    for name in inputs.context.budget_rules.names:
        yield metrics.BUDGETS_NEARLY_SPENT, (name,), found[name]


def _of_runs(inputs: HealthInputs) -> Iterator[Sample]:
    lane_requests = [one for state in _opened(inputs) for one in state.queue.requests.values()]
    runs = [
        (lane_request, lane_request.run)
        for lane_request in lane_requests
        if lane_request.run and lane_request.run.own_steps
    ]
    stages = Counter(run.stage for _, run in runs)
    for stage in get_args(RunStage):
        yield metrics.RUNS_OPEN, (stage,), stages[stage]
    # Steps of earlier versions do not say when they were taken; their requests do.
    waiting = [
        run.steps[-1].at or lane_request.origin.timestamp
        for lane_request, run in runs
        for call in run.open
        if call.awaits_person
    ]
    yield metrics.APPROVALS_WAITING, (), len(waiting)
    now = inputs.context.clock.now()
    age_s = (now - min(waiting, default=now)).total_seconds()
    yield metrics.APPROVAL_AGE, (), max(age_s, 0.0)


def _of_open(lane: Lane, inputs: HealthInputs) -> Iterator[Sample]:
    labels, lane_state = (str(lane.partition),), lane.lane_state
    yield metrics.LANE_QUEUE, labels, len(lane_state.queue)
    end = inputs.probe.ends.get(lane.partition)
    if end is not None:
        nothing = not lane_state.queue and inputs.read_monitor.is_read_out(lane.partition)
        lag = 0 if nothing else max(end - lane_state.watermark.committable, 0)
        yield metrics.LANE_LAG, labels, lag
    yield metrics.LANE_UNREAD, labels, inputs.read_monitor.unread_s(lane.partition)
    yield metrics.LANE_HELD_BACK, labels, inputs.transactions.held_s(lane.partition)
    now = inputs.context.clock.now()
    age_s = (now - (_oldest_at(lane_state.queue.requests.values()) or now)).total_seconds()
    yield metrics.OLDEST, labels, max(age_s, 0.0)


def _oldest_at(requests: Collection[LaneRequest]) -> datetime | None:
    """When the first came of those that wait for no person, themselves or with their workflow."""
    asking = {
        one.request.workflow_id
        for one in requests
        if one.run and one.run.stage == "awaits_approval"
    }
    return next(
        (
            one.origin.timestamp
            for one in requests  # they are kept as they came
            if one.request.workflow_id not in asking or one.state not in _SET_ASIDE
        ),
        None,
    )
