"""The table of A lane's lifecycle: what must be true of it, for all its rows."""

import pytest

from services.worker.lane.state.machine import (
    DRAINS,
    HAS_PRODUCER,
    LEAVING,
    STAY_S_MAX,
    TRANSITIONS,
    Effect,
    Event,
    LaneStep,
    State,
    StateMachine,
    Transition,
)

FROM_OUTSIDE = (
    Event.ASSIGNED,
    Event.REVOKED,
    Event.ASSIGNED_ELSEWHERE,
    Event.DRAIN_REQUESTED,
    Event.PRODUCER_LOST,
    Event.FENCED,
)
ALIVE = [state for state in State if state is not State.CLOSED]
BOUNDED = [state for state in ALIVE if state is not State.OPEN]


OPENING_ENDS = {Event.OPENED, Event.OPENING_FAILED, Event.OPENING_REFUSED}
ENDS: dict[LaneStep, set[Event]] = {
    LaneStep.OPEN: OPENING_ENDS,
    LaneStep.REOPEN: OPENING_ENDS,
    LaneStep.REOPEN_FOR_CALLS: OPENING_ENDS | {Event.CALLS_ENDED},
    LaneStep.PROVE: {Event.PROVED},
    LaneStep.SETTLE_CALLS: {Event.CALLS_ENDED},
    LaneStep.RELEASE: {Event.RELEASED},
    LaneStep.AWAIT_RETURN: {Event.CALLS_ENDED},
    LaneStep.CLOSE: set(),
}


def _reached(start: State) -> set[State]:
    """Every state that some events lead to."""
    found, new = {start}, [start]
    while new:
        state = new.pop()
        for event in Event:
            if (state, event) in TRANSITIONS:
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
    machine = StateMachine()
    for event in (Event.ASSIGNED, Event.DRAIN_REQUESTED, Event.CALLS_ENDED):
        machine.handle_event(event)
    assert machine.state is State.CLOSED

    for event in Event:
        assert machine.handle_event(event) == ()
    assert machine.state is State.CLOSED


def test_what_a_step_did_not_begin_it_cannot_end() -> None:
    machine = StateMachine()
    with pytest.raises(LookupError):
        machine.handle_event(Event.PROVED)


@pytest.mark.parametrize("state", BOUNDED)
def test_no_state_but_open_and_closed_lasts_for_ever(state: State) -> None:
    after = TRANSITIONS[state, Event.TIMED_OUT]

    assert after.state is not state or after.effects, "or what takes its time is begun again"
    assert (state in STAY_S_MAX) is not (state in DRAINS), "a state that drains says how long"


@pytest.mark.parametrize("state", ALIVE)
def test_a_lane_that_is_assigned_comes_to_be_open_unless_its_worker_stops(state: State) -> None:
    after = TRANSITIONS[state, Event.ASSIGNED].state

    assert (State.OPEN in _reached(after)) is not (state in DRAINS)
    assert State.CLOSED in _reached(state)


def test_a_worker_that_stops_spends_nothing_more() -> None:
    for state in ALIVE:
        after = TRANSITIONS[state, Event.DRAIN_REQUESTED].state
        assert _reached(after) <= DRAINS | {State.CLOSED}


def test_a_worker_that_stops_opens_no_lane_that_another_has() -> None:
    """No proof of membership succeeds there: it would try for all the time that it may drain."""
    elsewhere = {TRANSITIONS[state, Event.ASSIGNED_ELSEWHERE].state for state in ALIVE}
    for (state, event), after in TRANSITIONS.items():
        stops = state in DRAINS or event is Event.DRAIN_REQUESTED
        if state in elsewhere and stops and event is not Event.ASSIGNED:
            assert after.state is not State.DRAINING_REOPENING, (state, event)
            assert after.state in {State.DRAINING_ELSEWHERE, State.CLOSED}, (state, event)


def test_only_a_lane_with_a_producer_is_open_and_only_an_opening_gives_one() -> None:
    for (state, event), after in TRANSITIONS.items():
        if after.state in HAS_PRODUCER and state not in HAS_PRODUCER:
            assert event is Event.OPENED
        if event is Event.PRODUCER_LOST:
            assert after.state not in HAS_PRODUCER


def test_at_most_one_step_begins_and_it_comes_last() -> None:
    for after in TRANSITIONS.values():
        steps = [effect for effect in after.effects if isinstance(effect, LaneStep)]
        assert list(after.effects[len(after.effects) - len(steps) :]) == steps
        assert len(steps) <= 1


def test_what_a_step_ends_with_is_known_wherever_it_may_be_under_way() -> None:
    reached: set[tuple[State, LaneStep | None]] = {(State.UNASSIGNED, None)}
    new = list(reached)
    while new:
        state, step = new.pop()
        heard = ENDS[step] if step else set()
        assert all((state, event) in TRANSITIONS for event in heard), (state, step)
        for event in heard | set(FROM_OUTSIDE) | {Event.TIMED_OUT}:
            if (state, event) in TRANSITIONS:
                after = TRANSITIONS[state, event]
                is_over = event in heard or Effect.HALT in after.effects
                under_way = _step(after) or (None if is_over else step)
                if (after.state, under_way) not in reached:
                    reached.add((after.state, under_way))
                    new.append((after.state, under_way))

    met = {(state, event) for state, step in reached for event in (ENDS[step] if step else ())}
    ends = {pair for pair in TRANSITIONS if pair[1] not in {*FROM_OUTSIDE, Event.TIMED_OUT}}
    assert ends == met, "and no row is for nothing"


def test_a_lane_that_loses_its_producer_or_its_partition_starts_its_requests_again() -> None:
    for (state, event), after in TRANSITIONS.items():
        loses = state in HAS_PRODUCER - LEAVING and after.state not in HAS_PRODUCER
        leaves = state not in LEAVING and after.state in LEAVING - {State.CLOSED}
        if loses or leaves:
            assert Effect.CANCEL_UNCALLED in after.effects, (state, event)


def _step(after: Transition) -> LaneStep | None:
    return next((effect for effect in after.effects if isinstance(effect, LaneStep)), None)
