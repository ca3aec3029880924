"""The rows of the tables of lanes and requests that histories do not come to, and why."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from services.worker.core.request import life
from services.worker.lane.state.machine import TRANSITIONS, Event, State
from tests.unit.worker.lane.noted import Pair

_REVOKED_FIRST = "the group revokes before it assigns"
_REPLACED = "only a consumer that is replaced revokes what it does not have (renewal.renew)"
_TOO_LONG = "what takes so long is bounded by less"
_NO_GARBAGE = "no history holds state that cannot be read, or a second group"
_ONE_MOMENT = "only a commit that fails in the moment in which its opening is ended"
_NEVER_LATER = "no retry is later than its deadline"
_ONE_DRAIN = "a worker is told to stop once"

# Each is met all the same: unit/worker/lane/test_transitions.py, state/test_request_life.py.
NOT_MET: Mapping[Pair, str] = {
    (State.OPENING, Event.ASSIGNED): _REVOKED_FIRST,
    (State.OPENING, Event.ASSIGNED_ELSEWHERE): _REVOKED_FIRST,
    (State.OPENING, Event.OPENING_REFUSED): _NO_GARBAGE,
    (State.OPENING, Event.TIMED_OUT): _TOO_LONG,
    (State.OPEN, Event.ASSIGNED): _REVOKED_FIRST,
    (State.OPEN, Event.ASSIGNED_ELSEWHERE): _REVOKED_FIRST,
    (State.SUSPENDED, Event.REVOKED): _REPLACED,
    (State.SUSPENDED, Event.TIMED_OUT): _TOO_LONG,
    (State.RESUMING, Event.ASSIGNED): _REVOKED_FIRST,
    (State.RESUMING, Event.ASSIGNED_ELSEWHERE): _REVOKED_FIRST,
    (State.RESUMING, Event.TIMED_OUT): _TOO_LONG,
    (State.UNASSIGNED, Event.REVOKED): _REPLACED,
    (State.UNASSIGNED, Event.PRODUCER_LOST): _ONE_MOMENT,
    (State.UNASSIGNED, Event.FENCED): _ONE_MOMENT,
    (State.UNASSIGNED, Event.TIMED_OUT): _TOO_LONG,
    (State.HANDING_OVER, Event.REVOKED): _REPLACED,
    (State.HANDING_OVER, Event.TIMED_OUT): _TOO_LONG,
    (State.ABANDONED, Event.REVOKED): _REPLACED,
    (State.ABANDONED, Event.PRODUCER_LOST): _ONE_MOMENT,
    (State.ABANDONED, Event.FENCED): _ONE_MOMENT,
    (State.DRAINING, Event.DRAIN_REQUESTED): _ONE_DRAIN,
    (State.DRAINING_ELSEWHERE, Event.REVOKED): _REPLACED,
    (State.DRAINING_ELSEWHERE, Event.DRAIN_REQUESTED): _ONE_DRAIN,
    (State.DRAINING_REOPENING, Event.DRAIN_REQUESTED): _ONE_DRAIN,
    (State.DRAINING_REOPENING, Event.OPENING_REFUSED): _NO_GARBAGE,
    (life.RequestState.DELAYED, life.RequestEvent.DEADLINE): _NEVER_LATER,
}


ROWS: tuple[Pair, ...] = (*TRANSITIONS, *life.TRANSITIONS)


def never_met(met: AbstractSet[Pair]) -> Iterator[str]:
    """One line for each row that was not met."""
    for pair in ROWS:
        if pair not in met:
            why = NOT_MET.get(pair, "no reason is known: too few histories, or a dead row")
            of = "request " if isinstance(pair[0], life.RequestState) else ""
            yield f"never met: {of}{pair[0].name} {pair[1].name} ({why})"
