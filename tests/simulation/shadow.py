"""The table of lane/machine.py beside the lanes as they are: both must be in the same state."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from services.worker.lane import lane as lanes
from services.worker.lane import life, opening, reopening
from services.worker.lane.life import Life
from services.worker.lane.machine import TRANSITIONS, Event, State


@dataclass(frozen=True)
class Today:
    """What today's flags are in a state of the table; None: it makes no difference."""

    state: lanes.State
    leaving: bool | None = False
    assigned: bool | None = None
    orphaned: bool | None = False
    draining: bool | None = False


TODAY = {
    State.OPENING: Today(lanes.State.OPENING, assigned=True),
    State.OPEN: Today(lanes.State.OPEN, assigned=True),
    State.SUSPENDED: Today(lanes.State.SUSPENDED, assigned=False),
    State.RESUMING: Today(lanes.State.SUSPENDED, assigned=True),
    State.UNASSIGNED: Today(lanes.State.OPENING),  # so it begins, and then is assigned at once
    State.HANDING_OVER: Today(lanes.State.SUSPENDED, leaving=True, orphaned=True),
    State.ABANDONED: Today(lanes.State.OPENING, leaving=True, orphaned=True),
    State.DRAINING: Today(lanes.State.SUSPENDED, leaving=True, orphaned=None, draining=True),
    State.DRAINING_REOPENING: Today(
        lanes.State.OPENING, leaving=True, orphaned=None, draining=True
    ),
    State.CLOSED: Today(lanes.State.CLOSED, None, None, None, None),
}


@dataclass
class Shadow:
    """What the table says of each lane, and where it says other than the lane does."""

    states: "WeakKeyDictionary[Life, State]" = field(default_factory=WeakKeyDictionary)
    met: Counter[tuple[State, Event]] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def see(self, event: Event, of: Life) -> None:
        """An event that the lane is about to hear."""
        state = self.states.setdefault(of, State.UNASSIGNED)
        if state is State.CLOSED:
            return
        if state is State.DRAINING and event is Event.OPENED:
            return  # it began as the proof of a lane that was resuming
        if state is State.RESUMING and event is Event.OPENED:
            event = Event.PROVED
        self.met[state, event] += 1
        if (state, event) not in TRANSITIONS:
            self.complaints.append(f"{state.name} does not know {event.name}")
            return
        self.states[of] = TRANSITIONS[state, event].state

    def compare(self, of: Life, when: str) -> None:
        """Whether both are in the same state now."""
        state = self.states.get(of, State.UNASSIGNED)
        says, lane = TODAY[state], of.lane
        found = Today(lane.state, lane.leaving, of._assigned, of._orphaned, of._draining)
        for name in ("state", "leaving", "assigned", "orphaned", "draining"):
            expected, actual = getattr(says, name), getattr(found, name)
            if expected is not None and expected is not actual:
                self.complaints.append(f"{when}: {state.name}, and {name} is {actual}")


@contextmanager
def shadowed() -> Iterator[Shadow]:
    """Tell the table whatever happens to lanes."""
    shadow = Shadow()
    patches = [_told(shadow, "begin", Event.ASSIGNED), _told(shadow, "suspend", Event.REVOKED)]
    patches += [_told(shadow, "orphan", Event.ASSIGNED_ELSEWHERE)]
    patches += [_told(shadow, "_lose", Event.PRODUCER_LOST), _told(shadow, "_go_on", Event.OPENED)]
    patches += [_drain(shadow), _depart(shadow), _close(shadow), _open_once(shadow)]
    for patch in patches:
        patch.start()
    try:
        yield shadow
    finally:
        for patch in patches:
            patch.stop()


def _told(shadow: Shadow, name: str, event: Event) -> Any:
    original = getattr(Life, name)

    def told(self: Life, *more: Any) -> None:
        shadow.compare(self, f"before {name}")
        shadow.see(event, self)
        original(self, *more)
        shadow.compare(self, f"after {name}")

    return mock.patch.object(Life, name, told)


def _drain(shadow: Shadow) -> Any:
    original = Life.drain

    async def drain(self: Life, limit_s: float) -> None:
        shadow.compare(self, "before drain")
        shadow.see(Event.DRAIN_REQUESTED, self)
        await original(self, limit_s)

    return mock.patch.object(Life, "drain", drain)


def _depart(shadow: Shadow) -> Any:
    original = Life._depart

    async def depart(self: Life) -> None:
        shadow.compare(self, "before depart")
        shadow.see(Event.TIMED_OUT if self.lane.calls else Event.CALLS_ENDED, self)
        await original(self)

    return mock.patch.object(Life, "_depart", depart)


def _close(shadow: Shadow) -> Any:
    original = Life.close

    async def close(self: Life) -> None:
        is_lost = self.lane.state is lanes.State.OPENING  # while it gave back what was not used
        ended = Event.TIMED_OUT if self.lane.calls else Event.CALLS_ENDED
        shadow.see(ended if is_lost else Event.RELEASED, self)
        await original(self)
        shadow.compare(self, "after close")

    return mock.patch.object(Life, "close", close)


def _open_once(shadow: Shadow) -> Any:
    async def open_once(lane: Any, intake: Any, new_shard: Any, lose: Any, *, prove: bool) -> None:
        try:
            await reopening.open_once(lane, intake, new_shard, lose, prove=prove)
        except opening.Shut:
            shadow.see(Event.OPENING_REFUSED, lose.__self__)
            raise
        except Exception:
            shadow.see(Event.OPENING_FAILED, lose.__self__)
            raise

    return mock.patch.object(life, "open_once", open_once)
