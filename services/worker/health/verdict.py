"""What `/ready` answers: whether the worker goes on, and if not, which lane is stuck on what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.worker.health.holder import Holder, holder_of
from services.worker.health.reasons import reasons
from services.worker.health.trouble import trouble_of
from services.worker.health.watched import Watched
from services.worker.lane.lane import Lane
from services.worker.lane.machine import State


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
        opening=tuple(p for p, life in lives if life.lane.state is State.OPENING),
        stuck={partition: why for partition, why in troubles.items() if why},
        sick={name: why for name, why in sick.items() if why},
        reasons=tuple(filter(None, reasons(watched))),
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
        "in_flight": sum(_in_flight(life.lane) for life in lives),
        "held": context.tally.held,
        "duplicates": context.tally.duplicates,
        "forwarded": context.tally.forwarded,
        "unreadable": context.tally.unreadable,
        "unread": context.tally.unread,
        "kafka_silent_s": round(watched.probe.silent_s, 1),
        "loop": {"stalls": watched.pulse.stalls, "worst_s": round(watched.pulse.worst_s(), 2)},
    }


def _in_flight(lane: Lane) -> int:
    """A closed lane stays known until the next assignment; its calls have been ended."""
    return 0 if lane.state is State.CLOSED else len(lane.calls)
