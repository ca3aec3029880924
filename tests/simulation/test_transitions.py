"""What histories meet of the tables of lanes and requests, and what is said of the rest."""

from services.worker.core.request import life
from services.worker.lane.state.machine import Event, State
from tests.simulation.judge import judge
from tests.simulation.transitions import NOT_MET, ROWS, never_met

SEEDS = range(60, 80)


def test_histories_meet_most_rows_and_none_that_is_said_to_be_met_by_none() -> None:
    met = {pair for seed in SEEDS for pair in judge(seed).met if pair[0] is not State.CLOSED}

    assert met <= set(ROWS)
    assert len(met) > len(set(ROWS) - NOT_MET.keys()) / 2
    assert not met & NOT_MET.keys()


def test_a_row_that_is_never_met_is_reported() -> None:
    rare = (State.HANDING_OVER, Event.ASSIGNED)
    retry = (life.RequestState.RUNNING, life.RequestEvent.RETRY)
    lines = list(never_met(set(ROWS) - NOT_MET.keys() - {rare, retry}))

    assert len(lines) == len(NOT_MET) + 2
    assert [line for line in lines if "HANDING_OVER ASSIGNED (" in line]
    assert [line for line in lines if "request RUNNING RETRY (" in line]
    assert NOT_MET.keys() <= set(ROWS)
