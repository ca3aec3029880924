"""The lifecycle of a lane as a table of states and transitions; pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple, TypeAlias


class State(Enum):
    """Where a lane is; the value says it in words."""

    OPENING = "assigned, no producer: it fences, reads what is there, settles what is left over"
    OPEN = "takes records in, spends, calls"
    SUSPENDED = "revoked: calls in flight go on and are settled, nothing is spent"
    RESUMING = "assigned again: it proves that no other worker has fenced it meanwhile"
    UNASSIGNED = "revoked, no producer: calls in flight go on and cannot be settled"
    HANDING_OVER = "assigned elsewhere: it settles its calls, and its successor waits for it"
    ABANDONED = "assigned elsewhere, no producer: its calls wait for the partition to come back"
    DRAINING = "the worker stops: it settles its calls"
    DRAINING_ELSEWHERE = "the worker stops, assigned elsewhere: it settles its calls all the same"
    DRAINING_REOPENING = "the worker stops, no producer: it opens to settle its calls"
    CLOSED = "holds nothing"


class Event(Enum):
    """Events of a lane: five arrive from outside, the others end a step."""

    ASSIGNED = auto()
    REVOKED = auto()
    ASSIGNED_ELSEWHERE = auto()
    DRAIN_REQUESTED = auto()
    PRODUCER_LOST = auto()  # a commit that failed, or a bug after which all starts over
    FENCED = auto()  # another worker has opened the lane, and written off what was in flight here
    OPENED = auto()
    OPENING_FAILED = auto()
    OPENING_REFUSED = auto()  # by what the ledger says; an operator must act
    PROVED = auto()
    CALLS_ENDED = auto()  # or there were none
    RELEASED = auto()  # what was spent and not used is given back
    TIMED_OUT = auto()  # it was in this state for as long as it may be


class Effect(Enum):
    PAUSE = auto()  # take no more records in
    RESUME = auto()  # take records in from where the lane is, and start whose turn it is
    CANCEL_UNCALLED = auto()  # end the tasks whose call has not begun: their requests come again
    ABANDON_CALLS = auto()  # end the calls in flight: they cannot be settled here
    HALT = auto()  # end the step under way


class LaneStep(Enum):
    """Work that takes time and ends with an event; the next to begin ends the one before."""

    OPEN = auto()  # the assignment itself proves that the partition is ours
    REOPEN = auto()  # begins after a pause, and proves membership before it fences
    REOPEN_FOR_CALLS = auto()  # the same, if there are calls in flight to be settled
    PROVE = auto()  # a commit that only the owner of the producer can make
    SETTLE_CALLS = auto()  # waits for the calls, and shows that it is alive
    RELEASE = auto()  # gives back what was spent and not used
    AWAIT_RETURN = auto()  # lets the producer go, and keeps the calls, if there are any
    CLOSE = auto()


Action: TypeAlias = Effect | LaneStep


class Transition(NamedTuple):
    state: State
    effects: tuple[Action, ...]


def to(state: State, *effects: Action) -> Transition:
    return Transition(state, effects)


_LOST = (Effect.CANCEL_UNCALLED, Effect.PAUSE, LaneStep.REOPEN)
_LEAVE = (Effect.PAUSE, Effect.CANCEL_UNCALLED, LaneStep.SETTLE_CALLS)
_ABANDON = (Effect.CANCEL_UNCALLED, LaneStep.AWAIT_RETURN)
_FOR_CALLS = (Effect.CANCEL_UNCALLED, LaneStep.REOPEN_FOR_CALLS)

_BY_STATE: Mapping[State, Mapping[Event, Transition]] = {
    State.OPENING: {
        Event.ASSIGNED: to(State.OPENING, LaneStep.OPEN),
        Event.REVOKED: to(State.UNASSIGNED, Effect.HALT),
        Event.ASSIGNED_ELSEWHERE: to(State.ABANDONED, *_ABANDON),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING, *_FOR_CALLS),
        Event.PRODUCER_LOST: to(State.OPENING),  # the opening notices, and fails
        Event.FENCED: to(State.OPENING),
        Event.OPENED: to(State.OPEN, Effect.RESUME),
        Event.OPENING_FAILED: to(State.OPENING, LaneStep.REOPEN),
        Event.OPENING_REFUSED: to(State.OPENING, Effect.ABANDON_CALLS, LaneStep.REOPEN),
        Event.TIMED_OUT: to(State.OPENING, LaneStep.REOPEN),
    },
    State.OPEN: {
        Event.ASSIGNED: to(State.RESUMING, LaneStep.PROVE),
        Event.REVOKED: to(State.SUSPENDED),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER, *_LEAVE),
        Event.DRAIN_REQUESTED: to(State.DRAINING, *_LEAVE),
        Event.PRODUCER_LOST: to(State.OPENING, *_LOST),
        Event.FENCED: to(State.OPENING, *_LOST),
    },
    State.SUSPENDED: {
        Event.ASSIGNED: to(State.RESUMING, LaneStep.PROVE),
        Event.REVOKED: to(State.SUSPENDED),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER, *_LEAVE),
        Event.DRAIN_REQUESTED: to(State.DRAINING, *_LEAVE),
        Event.PRODUCER_LOST: to(State.UNASSIGNED, Effect.CANCEL_UNCALLED),
        Event.FENCED: to(State.UNASSIGNED, Effect.CANCEL_UNCALLED),
        Event.TIMED_OUT: to(State.HANDING_OVER, *_LEAVE),
    },
    State.RESUMING: {
        Event.ASSIGNED: to(State.RESUMING, LaneStep.PROVE),
        Event.REVOKED: to(State.SUSPENDED, Effect.HALT),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER, *_LEAVE),
        Event.DRAIN_REQUESTED: to(State.DRAINING, *_LEAVE),
        Event.PRODUCER_LOST: to(State.OPENING, *_LOST),
        Event.FENCED: to(State.OPENING, *_LOST),
        Event.PROVED: to(State.OPEN, Effect.RESUME),
        Event.TIMED_OUT: to(State.OPENING, *_LOST),
    },
    State.UNASSIGNED: {
        Event.ASSIGNED: to(State.OPENING, LaneStep.OPEN),
        Event.REVOKED: to(State.UNASSIGNED),
        Event.ASSIGNED_ELSEWHERE: to(State.ABANDONED, *_ABANDON),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING, *_FOR_CALLS),
        Event.PRODUCER_LOST: to(State.UNASSIGNED),
        Event.FENCED: to(State.UNASSIGNED),
        Event.TIMED_OUT: to(State.CLOSED, LaneStep.CLOSE),
    },
    State.HANDING_OVER: {
        Event.ASSIGNED: to(
            State.OPENING, LaneStep.OPEN
        ),  # requests whose tasks were ended come again
        Event.REVOKED: to(State.HANDING_OVER),
        Event.ASSIGNED_ELSEWHERE: to(State.HANDING_OVER),
        Event.DRAIN_REQUESTED: to(State.DRAINING_ELSEWHERE, LaneStep.SETTLE_CALLS),
        Event.PRODUCER_LOST: to(State.ABANDONED, *_ABANDON),
        Event.FENCED: to(State.CLOSED, LaneStep.CLOSE),
        Event.CALLS_ENDED: to(State.HANDING_OVER, LaneStep.RELEASE),
        Event.RELEASED: to(State.CLOSED, LaneStep.CLOSE),
        Event.TIMED_OUT: to(State.HANDING_OVER, LaneStep.RELEASE),
    },
    State.ABANDONED: {
        Event.ASSIGNED: to(State.OPENING, LaneStep.OPEN),
        Event.REVOKED: to(State.ABANDONED),
        Event.ASSIGNED_ELSEWHERE: to(State.ABANDONED),
        # Its new owner writes off what is in flight: a worker that stops does not wait for that.
        Event.DRAIN_REQUESTED: to(State.CLOSED, LaneStep.CLOSE),
        Event.PRODUCER_LOST: to(State.ABANDONED),
        Event.FENCED: to(State.ABANDONED),
        Event.CALLS_ENDED: to(State.CLOSED, LaneStep.CLOSE),
        Event.TIMED_OUT: to(State.CLOSED, LaneStep.CLOSE),
    },
    State.DRAINING: {
        Event.ASSIGNED: to(State.DRAINING),
        Event.REVOKED: to(State.DRAINING),
        Event.ASSIGNED_ELSEWHERE: to(State.DRAINING_ELSEWHERE),
        Event.DRAIN_REQUESTED: to(State.DRAINING),
        Event.PRODUCER_LOST: to(State.DRAINING_REOPENING, *_FOR_CALLS),
        Event.FENCED: to(State.CLOSED, LaneStep.CLOSE),
        Event.CALLS_ENDED: to(State.DRAINING, LaneStep.RELEASE),
        Event.RELEASED: to(State.CLOSED, LaneStep.CLOSE),
        Event.TIMED_OUT: to(State.DRAINING, LaneStep.RELEASE),
    },
    State.DRAINING_ELSEWHERE: {
        Event.ASSIGNED: to(State.DRAINING),
        Event.REVOKED: to(State.DRAINING_ELSEWHERE),
        Event.ASSIGNED_ELSEWHERE: to(State.DRAINING_ELSEWHERE),
        Event.DRAIN_REQUESTED: to(State.DRAINING_ELSEWHERE),
        Event.PRODUCER_LOST: to(State.CLOSED, LaneStep.CLOSE),  # it could not prove its membership
        Event.FENCED: to(State.CLOSED, LaneStep.CLOSE),
        Event.CALLS_ENDED: to(State.DRAINING_ELSEWHERE, LaneStep.RELEASE),
        Event.RELEASED: to(State.CLOSED, LaneStep.CLOSE),
        Event.TIMED_OUT: to(State.DRAINING_ELSEWHERE, LaneStep.RELEASE),
    },
    State.DRAINING_REOPENING: {
        Event.ASSIGNED: to(State.DRAINING_REOPENING),
        Event.REVOKED: to(State.DRAINING_REOPENING),
        Event.ASSIGNED_ELSEWHERE: to(State.CLOSED, LaneStep.CLOSE),
        Event.DRAIN_REQUESTED: to(State.DRAINING_REOPENING),
        Event.PRODUCER_LOST: to(State.DRAINING_REOPENING),  # the opening notices, and fails
        Event.FENCED: to(State.DRAINING_REOPENING),
        Event.OPENED: to(State.DRAINING, LaneStep.SETTLE_CALLS),
        Event.OPENING_FAILED: to(State.DRAINING_REOPENING, LaneStep.REOPEN_FOR_CALLS),
        Event.OPENING_REFUSED: to(State.CLOSED, LaneStep.CLOSE),
        Event.CALLS_ENDED: to(State.CLOSED, LaneStep.CLOSE),
        Event.TIMED_OUT: to(State.CLOSED, LaneStep.CLOSE),
    },
    State.CLOSED: {},
}

TRANSITIONS: Mapping[tuple[State, Event], Transition] = {
    (state, event): transition
    for state, row in _BY_STATE.items()
    for event, transition in row.items()
}

DRAINS = frozenset({State.DRAINING, State.DRAINING_ELSEWHERE, State.DRAINING_REOPENING})
HAS_PRODUCER = frozenset(
    {State.OPEN, State.SUSPENDED, State.RESUMING, State.HANDING_OVER}
    | {State.DRAINING, State.DRAINING_ELSEWHERE}
)
# Nothing is spent here again, unless it is opened again.
LEAVING = frozenset({State.HANDING_OVER, State.ABANDONED, State.CLOSED} | DRAINS)
STAY_S_MAX: Mapping[State, float] = {  # but for OPEN; for those that drain, the caller sets it
    State.OPENING: 600.0,  # one try, beside the time that its predecessor has; what hangs is redone
    State.SUSPENDED: 3_600.0,  # longer than any rebalance; Kafka itself may be away
    State.RESUMING: 90.0,  # one commit
    State.UNASSIGNED: 3_600.0,
    State.HANDING_OVER: 3_700.0,  # no call takes longer
    State.ABANDONED: 300.0,  # what keeps it from settling keeps its new owner from opening
}


class StateMachine:
    """Where one lane is; it begins without a producer, until the group assigns it."""

    def __init__(self) -> None:
        self._state = State.UNASSIGNED

    @property
    def state(self) -> State:
        return self._state

    def handle_event(self, event: Event) -> tuple[Action, ...]:
        """Change the state; gives what is to be done now. Raises LookupError for a bug."""
        if self._state is State.CLOSED:
            return ()
        self._state, effects = TRANSITIONS[self._state, event]
        return effects
