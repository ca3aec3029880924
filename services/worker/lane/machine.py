"""The life of a lane as a table: the one place that says which state follows which, pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple


class State(Enum):
    """Where a lane stands."""

    OPENING = auto()  # assigned, no producer: it fences, reads what is there, settles what is left
    OPEN = auto()  # takes records in, spends, calls
    SUSPENDED = auto()  # revoked: calls in flight go on and are settled, nothing is spent
    RESUMING = auto()  # assigned again: it proves that nobody has fenced it meanwhile
    UNASSIGNED = auto()  # revoked, no producer: calls in flight go on and cannot be settled
    HANDING_OVER = auto()  # assigned elsewhere: it settles its calls, while the successor waits
    ABANDONED = auto()  # assigned elsewhere, no producer: its calls wait for it to come back
    DRAINING = auto()  # the worker stops: it settles its calls
    DRAINING_REOPENING = auto()  # the worker stops, no producer: it opens to settle its calls
    CLOSED = auto()


class Event(Enum):
    """What happens to a lane: five come from outside, the others end what an effect has begun."""

    ASSIGNED = auto()
    REVOKED = auto()
    ASSIGNED_ELSEWHERE = auto()
    DRAIN_REQUESTED = auto()
    PRODUCER_LOST = auto()  # fenced, or a commit that failed, or a bug after which all starts over
    OPENED = auto()
    OPENING_FAILED = auto()
    OPENING_REFUSED = auto()  # by what the ledger says; somebody must do something about it
    PROVED = auto()
    CALLS_ENDED = auto()  # or there were none
    RELEASED = auto()  # what was spent and not used is given back
    TIMED_OUT = auto()  # it was in this state for as long as it may be


class Effect(Enum):
    """What the lane has to do; of those that take time, the next to begin ends the one before."""

    PAUSE = auto()  # take no more records in
    RESUME = auto()  # take records in from where the lane stands, and start whose turn it is
    CANCEL_UNCALLED = auto()  # end the tasks whose call has not begun: their requests come again
    ABANDON_CALLS = auto()  # end the calls in flight: nobody can settle them here
    HALT = auto()  # end what takes time and is under way
    OPEN = auto()  # takes time; the assignment itself proves that the partition is ours
    REOPEN = auto()  # takes time, and begins after a pause; proves membership before it fences
    PROVE = auto()  # takes time: a commit that only the owner of the producer can make
    SETTLE_CALLS = auto()  # takes time: waits for the calls, and shows that it is alive
    RELEASE = auto()  # takes time: gives back what was spent and not used
    AWAIT_RETURN = auto()  # takes time: lets the producer go, keeps the calls that there are
    CLOSE = auto()


class Transition(NamedTuple):
    """What follows."""

    state: State
    effects: tuple[Effect, ...]


def to(state: State, *effects: Effect) -> Transition:
    """A row of the table."""
    return Transition(state, effects)


_LOST = (Effect.CANCEL_UNCALLED, Effect.PAUSE, Effect.REOPEN)
_LEAVE = (Effect.PAUSE, Effect.CANCEL_UNCALLED, Effect.SETTLE_CALLS)
_ABANDON = (Effect.CANCEL_UNCALLED, Effect.AWAIT_RETURN)
_REOPEN_TO_SETTLE = (Effect.CANCEL_UNCALLED, Effect.REOPEN)

_BY_STATE: Mapping[State, Mapping[Event, Transition]] = {
    State.OPENING: {
        Event.ASSIGNED: to(State.OPENING, Effect.OPEN),
        Event.REVOKED: to(State.UNASSIGNED, Effect.HALT),
        Event.ASSIGNED_ELSEWHERE: to(State.ABANDONED, *_ABANDON),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING, *_REOPEN_TO_SETTLE),
        Event.PRODUCER_LOST: to(State.OPENING),  # the opening hears of it, and fails
        Event.OPENED: to(State.OPEN, Effect.RESUME),
        Event.OPENING_FAILED: to(State.OPENING, Effect.REOPEN),
        Event.OPENING_REFUSED: to(State.OPENING, Effect.ABANDON_CALLS, Effect.REOPEN),
        Event.TIMED_OUT: to(State.OPENING, Effect.REOPEN),
    },
    State.OPEN: {
        Event.ASSIGNED: to(State.RESUMING, Effect.PROVE),
        Event.REVOKED: to(State.SUSPENDED),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER, *_LEAVE),
        Event.DRAIN_REQUESTED: to(State.DRAINING, *_LEAVE),
        Event.PRODUCER_LOST: to(State.OPENING, *_LOST),
    },
    State.SUSPENDED: {
        Event.ASSIGNED: to(State.RESUMING, Effect.PROVE),
        Event.REVOKED: to(State.SUSPENDED),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER, *_LEAVE),
        Event.DRAIN_REQUESTED: to(State.DRAINING, *_LEAVE),
        Event.PRODUCER_LOST: to(State.UNASSIGNED, Effect.CANCEL_UNCALLED),
        Event.TIMED_OUT: to(State.HANDING_OVER, *_LEAVE),
    },
    State.RESUMING: {
        Event.ASSIGNED: to(State.RESUMING, Effect.PROVE),
        Event.REVOKED: to(State.SUSPENDED, Effect.HALT),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER, *_LEAVE),
        Event.DRAIN_REQUESTED: to(State.DRAINING, *_LEAVE),
        Event.PRODUCER_LOST: to(State.OPENING, *_LOST),
        Event.PROVED: to(State.OPEN, Effect.RESUME),
        Event.TIMED_OUT: to(State.OPENING, *_LOST),
    },
    State.UNASSIGNED: {
        Event.ASSIGNED: to(State.OPENING, Effect.OPEN),
        Event.REVOKED: to(State.UNASSIGNED),
        Event.ASSIGNED_ELSEWHERE: to(State.ABANDONED, *_ABANDON),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING, *_REOPEN_TO_SETTLE),
        Event.PRODUCER_LOST: to(State.UNASSIGNED),
        Event.TIMED_OUT: to(State.CLOSED, Effect.CLOSE),
    },
    State.HANDING_OVER: {
        Event.ASSIGNED: to(State.OPENING, Effect.OPEN),  # requests whose tasks were ended come anew
        Event.REVOKED: to(State.HANDING_OVER),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER),
        Event.DRAIN_REQUESTED: to(State.DRAINING, Effect.SETTLE_CALLS),
        Event.PRODUCER_LOST: to(State.ABANDONED, *_ABANDON),
        Event.CALLS_ENDED: to(State.HANDING_OVER, Effect.RELEASE),
        Event.RELEASED: to(State.CLOSED, Effect.CLOSE),
        Event.TIMED_OUT: to(State.HANDING_OVER, Effect.RELEASE),
    },
    State.ABANDONED: {
        Event.ASSIGNED: to(State.OPENING, Effect.OPEN),
        Event.REVOKED: to(State.ABANDONED),
        Event.ASSIGNED_ELSEWHERE: to(State.ABANDONED),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING, *_REOPEN_TO_SETTLE),
        Event.PRODUCER_LOST: to(State.ABANDONED),
        Event.CALLS_ENDED: to(State.CLOSED, Effect.CLOSE),
        Event.TIMED_OUT: to(State.CLOSED, Effect.CLOSE),
    },
    State.DRAINING: {
        # Whose the partition is makes no difference: what is no longer ours is fenced.
        Event.ASSIGNED: to(State.DRAINING),
        Event.REVOKED: to(State.DRAINING),
        Event.ASSIGNED_ELSEWHERE: to(State.DRAINING),
        Event.DRAIN_REQUESTED: to(State.DRAINING),
        Event.PRODUCER_LOST: to(State.DRAINING_REOPENING, *_REOPEN_TO_SETTLE),
        Event.CALLS_ENDED: to(State.DRAINING, Effect.RELEASE),
        Event.RELEASED: to(State.CLOSED, Effect.CLOSE),
        Event.TIMED_OUT: to(State.DRAINING, Effect.RELEASE),
    },
    State.DRAINING_REOPENING: {
        Event.ASSIGNED: to(State.DRAINING_REOPENING),
        Event.REVOKED: to(State.DRAINING_REOPENING),
        # One that has proved its membership, and has not fenced yet, has to prove it again.
        Event.ASSIGNED_ELSEWHERE: to(State.DRAINING_REOPENING, Effect.REOPEN),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING),
        Event.PRODUCER_LOST: to(State.DRAINING_REOPENING),  # the opening hears of it, and fails
        Event.OPENED: to(State.DRAINING, Effect.SETTLE_CALLS),
        Event.OPENING_FAILED: to(State.DRAINING_REOPENING, Effect.REOPEN),
        Event.OPENING_REFUSED: to(State.CLOSED, Effect.CLOSE),
        Event.CALLS_ENDED: to(State.CLOSED, Effect.CLOSE),
        Event.TIMED_OUT: to(State.CLOSED, Effect.CLOSE),
    },
    State.CLOSED: {},
}

TRANSITIONS: Mapping[tuple[State, Event], Transition] = {
    (state, event): transition
    for state, row in _BY_STATE.items()
    for event, transition in row.items()
}

HAS_PRODUCER = frozenset(
    {State.OPEN, State.SUSPENDED, State.RESUMING, State.HANDING_OVER, State.DRAINING}
)
LEAVING = frozenset(
    {State.HANDING_OVER, State.ABANDONED, State.DRAINING, State.DRAINING_REOPENING, State.CLOSED}
)
