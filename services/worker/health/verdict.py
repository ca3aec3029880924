"""What `/ready` answers: whether the worker goes on, and if not, which lane is stuck on what."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from services.topics.clock_offset import clock_problem
from services.worker.context import Context
from services.worker.health.holder import Holder, holder_of
from services.worker.health.probe import Probe
from services.worker.health.pulse import Pulse
from services.worker.health.trouble import trouble_of
from services.worker.lane.lane import Lane, State
from services.worker.lane.membership import RESTLESS_COUNT, RESTLESS_S, Membership
from services.worker.reading import Reading


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds: without progress, and until the group gives a silent member's partitions away."""

    stuck_after_s: float
    session_s: float


class Others(Protocol):
    """The names of consumer groups whose workers read the same requests."""

    @property
    def names(self) -> tuple[str, ...]:
        """As of the last look."""
        ...


@dataclass(frozen=True, slots=True)
class NoOthers:
    """There are none."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Watched:
    """All that a verdict is drawn from.

    `clock_ahead_s` is how far this machine's clock is ahead of the broker's, where that is known.
    """

    membership: Membership
    context: Context
    pulse: Pulse
    probe: Probe
    bounds: Bounds
    others: Others = NoOthers()
    reading: Reading = field(default_factory=Reading)
    clock_ahead_s: Callable[[], float | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`stuck` says why by partition, `sick` by profile, `reasons` what concerns all lanes.

    `held` names the workflow that holds a lane; that alone makes nobody unready.
    """

    lanes: Mapping[int, State]
    opening: tuple[int, ...]
    stuck: Mapping[int, str]
    sick: Mapping[str, str]
    reasons: tuple[str, ...]
    held: Mapping[int, Holder] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """An idle worker is ready, and so is one that waits for partitions or for a provider."""
        return not (self.opening or self.stuck or self.sick or self.reasons)


def judge(watched: Watched) -> Verdict:
    """The verdict of this moment."""
    watched.pulse.feel()
    context, lives = watched.context, sorted(watched.membership.lives.items())
    bound_s, reading = watched.bounds.stuck_after_s, watched.reading
    troubles = {
        partition: trouble_of(life, context, bound_s) or reading.trouble_of(partition, bound_s)
        for partition, life in lives
    }
    sick = {name: backend.gate.sick for name, backend in context.planner.backends.items()}
    return Verdict(
        lanes={partition: life.lane.state for partition, life in lives},
        opening=tuple(p for p, life in lives if _is_opening(life.lane)),
        stuck={partition: why for partition, why in troubles.items() if why},
        sick={name: why for name, why in sick.items() if why},
        reasons=tuple(filter(None, _reasons(watched))),
        held={p: held for p, life in lives if (held := holder_of(life.lane))},
    )


def body_of(verdict: Verdict, watched: Watched) -> dict[str, object]:
    """What an operator is told."""
    context, lives = watched.context, watched.membership.lives.values()
    return {
        "ready": verdict.ready,
        "worker": context.worker,
        "reasons": verdict.reasons,
        "lanes": {str(p): state.name.lower() for p, state in verdict.lanes.items()},
        "stuck": {str(p): why for p, why in verdict.stuck.items()},
        "sick_profiles": verdict.sick,
        "other_groups": watched.others.names,
        "held_by": {str(p): holder.told() for p, holder in verdict.held.items()},
        "in_flight": sum(len(life.lane.calls) for life in lives),
        "held": context.tally.held,
        "duplicates": context.tally.duplicates,
        "forwarded": context.tally.forwarded,
        "unreadable": context.tally.unreadable,
        "unread": context.tally.unread,
        "kafka_silent_s": round(watched.probe.silent_s, 1),
        "loop": {"stalls": watched.pulse.stalls, "worst_s": round(watched.pulse.worst_s(), 2)},
    }


def _is_opening(lane: Lane) -> bool:
    return lane.state is State.OPENING and not lane.leaving


def _reasons(watched: Watched) -> Iterator[str | None]:
    yield _standstill(watched) or _kafka(watched)
    yield _restless(watched.membership)
    yield not_read(watched)
    yield clock_problem(watched.clock_ahead_s())


def _kafka(watched: Watched) -> str | None:
    silent_s = watched.probe.silent_s
    if silent_s <= watched.bounds.stuck_after_s:
        return None
    trouble = watched.probe.trouble
    return f"Kafka has not answered for {silent_s:.0f} s{f' ({trouble})' if trouble else ''}"


def not_read(watched: Watched) -> str | None:
    """Why no request is read at all, though Kafka answers."""
    if watched.probe.missing:
        return watched.probe.missing
    outside_since, bound_s = watched.membership.outside_since, watched.bounds.stuck_after_s
    if outside_since is None:
        return watched.reading.trouble(bound_s)
    outside_s = asyncio.get_running_loop().time() - outside_since
    told = f"has been no member of the consumer group for {outside_s:.0f} s: the group rebalances"
    return watched.reading.trouble(outside_s + bound_s) or (told if outside_s > bound_s else None)


def _restless(membership: Membership) -> str | None:
    if not membership.is_restless:
        return None
    return (
        f"partitions were assigned {RESTLESS_COUNT} times within {RESTLESS_S:.0f} s: two workers "
        "with one `kafka.group_instance_id` do that, and so do workers that start and die in turns"
    )


def _standstill(watched: Watched) -> str | None:
    """After it stood still a worker may own nothing any more, and not know it yet."""
    stall, now = watched.pulse.standstill, asyncio.get_running_loop().time()
    if stall is None:
        return None
    stood = f"the process stood still for {stall.lasted_s:.0f} s"
    if watched.probe.heard_at <= stall.ended_at:
        return f"{stood}, and Kafka has not answered since"
    session_s = watched.bounds.session_s
    has_been_evicted = stall.lasted_s >= session_s
    has_returned = watched.membership.assigned_at > stall.ended_at
    if has_been_evicted and not has_returned and now - stall.ended_at < session_s:
        return f"{stood}, and its partitions have not been given back"
    return None
