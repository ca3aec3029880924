"""How soon a lane is opened again."""

from services.worker.lane.state.machine import Event
from services.worker.lane.state.reopen_backoff import (
    REOPEN_FIRST_S,
    REOPEN_MAX_S,
    SHUT_LOOK_S,
    ReopenBackoff,
)


def test_the_first_loss_costs_no_time_and_those_that_follow_ever_more() -> None:
    backoff, pauses = ReopenBackoff(), []
    for number in range(9):
        backoff.lost(was_stable=number == 0)
        pauses.append(backoff.pause_s(Event.PRODUCER_LOST))

    assert pauses[:4] == [0.0, REOPEN_FIRST_S, 2 * REOPEN_FIRST_S, 4 * REOPEN_FIRST_S]
    assert pauses[-1] == REOPEN_MAX_S

    backoff.lost(was_stable=True)
    assert backoff.pause_s(Event.PRODUCER_LOST) == 0.0


def test_failures_are_reset_once_it_is_open() -> None:
    backoff = ReopenBackoff()
    assert [backoff.pause_s(Event.OPENING_FAILED) for _ in range(2)] == [0.2, 0.4]
    backoff.opened()

    assert backoff.pause_s(Event.OPENING_FAILED) == REOPEN_FIRST_S
    assert backoff.pause_s(Event.OPENING_REFUSED) == SHUT_LOOK_S
    assert backoff.pause_s(Event.TIMED_OUT) == 0.0
