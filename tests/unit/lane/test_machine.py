"""The table of a lane's life: what must be true of it, whatever its rows say."""

import pytest

from services.worker.lane.machine import (
    HAS_PRODUCER,
    LEAVING,
    TRANSITIONS,
    Effect,
    Event,
    State,
)

FROM_OUTSIDE = (
    Event.ASSIGNED,
    Event.REVOKED,
    Event.ASSIGNED_ELSEWHERE,
    Event.DRAIN_REQUESTED,
    Event.PRODUCER_LOST,
)
ALIVE = [state for state in State if state is not State.CLOSED]
BOUNDED = [state for state in ALIVE if state is not State.OPEN]
OPENS = {Effect.OPEN, Effect.REOPEN}
TAKES_TIME = OPENS | {Effect.PROVE, Effect.SETTLE_CALLS, Effect.RELEASE, Effect.AWAIT_RETURN}


def _reached(start: State, *, without: frozenset[Event] = frozenset()) -> set[State]:
    """Every state that some events lead to."""
    found, new = {start}, [start]
    while new:
        state = new.pop()
        for event in Event:
            if event not in without and (state, event) in TRANSITIONS:
                after = TRANSITIONS[state, event].state
                if after not in found:
                    found.add(after)
                    new.append(after)
    return found


@pytest.mark.parametrize("state", ALIVE)
@pytest.mark.parametrize("event", FROM_OUTSIDE)
def test_what_comes_from_outside_is_answered_in_every_state(state: State, event: Event) -> None:
    assert (state, event) in TRANSITIONS


def test_closed_is_the_end() -> None:
    assert not any(state is State.CLOSED for state, _ in TRANSITIONS)


@pytest.mark.parametrize("state", BOUNDED)
def test_no_state_but_open_and_closed_lasts_for_ever(state: State) -> None:
    assert (state, Event.TIMED_OUT) in TRANSITIONS
    after = TRANSITIONS[state, Event.TIMED_OUT]
    leads_on = set(after.effects) & (OPENS | {Effect.RELEASE})
    assert after.state is not state or leads_on, "or what takes its time is begun anew"


@pytest.mark.parametrize("state", ALIVE)
def test_a_lane_that_is_assigned_comes_to_be_open_unless_its_worker_stops(state: State) -> None:
    is_draining = state in {State.DRAINING, State.DRAINING_REOPENING}
    if (state, Event.ASSIGNED) in TRANSITIONS:
        after = TRANSITIONS[state, Event.ASSIGNED].state
        assert (State.OPEN in _reached(after)) is not is_draining
    assert State.CLOSED in _reached(state)


def test_a_worker_that_stops_spends_nothing_more() -> None:
    for state in ALIVE:
        after = TRANSITIONS[state, Event.DRAIN_REQUESTED].state
        assert _reached(after) <= {State.DRAINING, State.DRAINING_REOPENING, State.CLOSED}


def test_only_a_lane_with_a_producer_is_open_and_only_an_opening_gives_one() -> None:
    for (state, event), after in TRANSITIONS.items():
        if after.state in HAS_PRODUCER and state not in HAS_PRODUCER:
            assert event is Event.OPENED
        if event is Event.PRODUCER_LOST:
            assert after.state not in HAS_PRODUCER


def test_where_a_state_is_left_for_one_without_work_what_was_begun_is_ended() -> None:
    begun = {
        state
        for (_, _), (state, effects) in TRANSITIONS.items()
        if set(effects) & TAKES_TIME and state is not State.CLOSED
    }
    for (state, _), after in TRANSITIONS.items():
        if state in begun and after.state not in begun | {State.CLOSED, State.OPEN}:
            assert Effect.HALT in after.effects


def test_each_effect_is_begun_at_most_once_and_uncalled_tasks_end_before_anything_else_begins() -> (
    None
):
    for after in TRANSITIONS.values():
        takes_time = [effect for effect in after.effects if effect in TAKES_TIME]
        assert len(takes_time) <= 1
        assert after.effects[-1:] == tuple(takes_time) or not takes_time


def test_a_lane_that_loses_its_producer_or_its_partition_starts_its_requests_anew() -> None:
    for (state, event), after in TRANSITIONS.items():
        loses = state in HAS_PRODUCER and after.state not in HAS_PRODUCER | {State.CLOSED}
        leaves = state not in LEAVING and after.state in LEAVING - {State.CLOSED}
        if (loses or leaves) and state not in LEAVING:
            assert Effect.CANCEL_UNCALLED in after.effects, (state, event)
