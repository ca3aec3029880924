"""What histories meet of the lane's table, and what is said of the rest."""

from services.worker.lane.state.machine import TRANSITIONS, Event, State
from tests.simulation.judge import judge
from tests.simulation.transitions import NOT_MET, never_met

SEEDS = range(40, 60)


def test_histories_meet_most_rows_and_none_that_is_said_to_be_met_by_none() -> None:
    met = {pair for seed in SEEDS for pair in judge(seed).met if pair[0] is not State.CLOSED}

    assert met <= TRANSITIONS.keys()
    assert len(met) > len(TRANSITIONS.keys() - NOT_MET.keys()) / 2
    assert not met & NOT_MET.keys()


def test_a_row_that_is_never_met_is_reported() -> None:
    rare = (State.HANDING_OVER, Event.ASSIGNED)
    lines = list(never_met(TRANSITIONS.keys() - NOT_MET.keys() - {rare}))

    assert len(lines) == len(NOT_MET) + 1
    assert [line for line in lines if "HANDING_OVER ASSIGNED (" in line]
    assert NOT_MET.keys() <= TRANSITIONS.keys()
