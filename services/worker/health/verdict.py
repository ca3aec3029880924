"""The answer of `/ready`: whether the worker makes progress, or which lane is stuck and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.wire import format_timestamp
from services.worker.core.limits.profile_problem import ProfileProblem
from services.worker.health.lane_problem import (
    WaitingRequests,
    lane_problem,
    oldest_requests,
    waiting_requests,
)
from services.worker.health.reasons import reasons
from services.worker.health.watched import HealthInputs
from services.worker.lane.lane import Lane
from services.worker.lane.state.machine import State
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend

REQUESTS_MIN = 100  # of one workflow, to be named while the lane still takes requests in


@dataclass(frozen=True, slots=True)
class LaneHolder:
    """`since` is when its oldest request was published; a paused lane takes none in."""

    workflow_id: str
    requests: int
    running: int  # calls, and those that wait for a place at their profile
    since: datetime
    lane_is_paused: bool

    def describe(self) -> dict[str, object]:
        return {
            "workflow_id": self.workflow_id,
            "requests": self.requests,
            "running": self.running,
            "since": format_timestamp(self.since),
            "lane_is_paused": self.lane_is_paused,
        }


def holder_of(lane: Lane) -> LaneHolder | None:
    """The workflow with the most requests, where they are most of many or the lane is paused."""
    if lane.state is not State.OPEN:
        return None
    queue, is_paused = lane.lane_state.queue, lane.backpressure.is_paused
    found = queue.largest()
    if found is None:
        return None
    workflow_id, requests, running = found
    is_most = requests >= REQUESTS_MIN and 2 * requests > len(queue)
    if not is_paused and not is_most:
        return None
    theirs = (t for t in queue.requests.values() if t.request.workflow_id == workflow_id)
    since = next(theirs).origin.timestamp  # requests are kept as they came
    return LaneHolder(workflow_id, requests, running, since, is_paused)


def profile_problems(backends: Mapping[str, Backend], bound_s: float) -> dict[str, ProfileProblem]:
    """The problem of each profile that has one; `bound_s` is how long a provider may be silent."""
    problems = {name: _problem(backend.limiter, bound_s) for name, backend in backends.items()}
    return {name: problem for name, problem in problems.items() if problem}


def _problem(limiter: ProfileLimiter, bound_s: float) -> ProfileProblem | None:
    if problem := limiter.problem:
        return problem
    silent_s = limiter.silent_s
    if silent_s <= limiter.watchdog.bound_s(bound_s):
        return None
    text = f"no response from the provider for {silent_s:.0f} s"
    return ProfileProblem("silent", text, silent_s)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`stuck` says why by partition, `unhealthy` by profile, `reasons` what concerns all lanes.

    `held` names the workflow that holds a lane; that alone makes no worker unready.
    """

    lanes: Mapping[int, State]
    opening: tuple[int, ...]
    stuck: Mapping[int, str]
    unhealthy: Mapping[str, ProfileProblem]
    reasons: tuple[str, ...]
    held: Mapping[int, LaneHolder] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """An idle worker is ready, and so is one that waits for partitions, or is throttled."""
        return not (self.opening or self.stuck or self.unhealthy or self.reasons)


def judge(inputs: HealthInputs) -> Verdict:
    inputs.loop_monitor.tick()
    context, lifecycles = inputs.context, sorted(inputs.membership.lifecycles.items())
    bound_s, reading = inputs.stuck_after_s, inputs.read_monitor
    troubles = {
        partition: lane_problem(lifecycle, context, bound_s)
        or inputs.transactions.problem_of(partition)
        or reading.problem_of(partition, bound_s)
        for partition, lifecycle in lifecycles
    }
    return Verdict(
        lanes={partition: lifecycle.lane.state for partition, lifecycle in lifecycles},
        opening=tuple(p for p, lifecycle in lifecycles if lifecycle.lane.state is State.OPENING),
        stuck={partition: why for partition, why in troubles.items() if why},
        unhealthy=profile_problems(context.planner.backends, bound_s),
        reasons=tuple(filter(None, reasons(inputs))),
        held={p: held for p, lifecycle in lifecycles if (held := holder_of(lifecycle.lane))},
    )


# Names of the version before: served beside the new ones, in this version.
FORMER_NAMES = {"sick_profiles": "unhealthy_profiles", "unread": "lost_to_retention"}


def body_of(verdict: Verdict, inputs: HealthInputs) -> dict[str, object]:
    context, lifecycles = inputs.context, inputs.membership.lifecycles.values()
    waiting = waiting_requests(lifecycle.lane for lifecycle in lifecycles)
    body: dict[str, object] = {
        "ready": verdict.ready,
        "worker": context.worker,
        "reasons": verdict.reasons,
        "lanes": {str(p): state.name.lower() for p, state in verdict.lanes.items()},
        "stuck": {str(p): why for p, why in verdict.stuck.items()},
        "unhealthy_profiles": {name: problem.text for name, problem in verdict.unhealthy.items()},
        "profiles": _profiles(verdict, waiting, context.clock.now()),
        "servers": {
            name: backend.limiter.server.server
            for name, backend in context.planner.backends.items()
        },
        "settings": {"digest": inputs.settings.digest, "refused": inputs.settings.refused},
        "agents": context.planner.agents.digests,
        "toolsets": dict(inputs.tools.faults),
        "other_groups": [*inputs.others.names],
        "oldest_requests": {
            str(p): {"profile": one.request.profile, "state": one.life.state.name.lower()}
            for p, one in oldest_requests(lane.lane for lane in lifecycles).items()
        },
        "held_by": {str(p): holder.describe() for p, holder in verdict.held.items()},
        "in_flight": sum(_in_flight(lifecycle.lane) for lifecycle in lifecycles),
        "held": context.counters.held,
        "duplicates": context.counters.duplicates,
        "forwarded": context.counters.forwarded,
        "unreadable": context.counters.unreadable,
        "lost_to_retention": context.counters.lost_to_retention,
        "kafka_silent_s": round(inputs.probe.silent_s, 1),
        "loop": {
            "stalls": inputs.loop_monitor.stalls,
            "worst_s": round(inputs.loop_monitor.worst_s(), 2),
        },
    }
    return body | {former: body[name] for former, name in FORMER_NAMES.items()}


def _in_flight(lane: Lane) -> int:
    """A closed lane stays known until the next assignment; its calls have been ended."""
    return 0 if lane.state is State.CLOSED else len(lane.calls)


def _profiles(
    verdict: Verdict, waiting: Mapping[str, WaitingRequests], now: datetime
) -> dict[str, object]:
    """For programs: what is wrong in one word and since when, and how many requests it has."""
    return {
        name: _profile(verdict.unhealthy.get(name), waiting.get(name), now)
        for name in sorted({*verdict.unhealthy, *waiting})
    }


def _profile(
    problem: ProfileProblem | None, held: WaitingRequests | None, now: datetime
) -> dict[str, object]:
    lasts_s = problem.lasts_s if problem else None
    since = None if lasts_s is None else format_timestamp(now - timedelta(seconds=lasts_s))
    return {
        "problem": problem.kind if problem else None,
        "since": since,
        "requests": held.count if held else 0,
        "oldest": format_timestamp(held.since) if held else None,
    }
