"""The lanes and their calls in flight, folded from the ledger."""

from collections import Counter

from services.console.state.lanes import Lanes, LaneSummary
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, stored


def test_lanes_know_who_opened_them_and_what_is_in_flight() -> None:
    lanes = Lanes()
    for record in (
        stored("lane/lane", partition=2, worker="w-1", openings_without_progress=1),
        stored("lane/lane", NOON_MS + 5, partition=2, worker="w-2", openings_without_progress=0),
        stored("account/busy", partition=1, account_id="a", in_flight=[{}, {}]),
        stored("account/busy", partition=2, account_id="b", in_flight=[{}]),
        stored("account/busy", partition=2, account_id="c", in_flight=[{}]),
        stored("account/busy", partition=2, account_id="b", in_flight=[]),
    ):
        lanes.take(summarize(record))

    assert lanes.lanes == (LaneSummary(2, "w-2", 0, NOON_MS + 5),)
    assert lanes.in_flight == Counter({1: 2, 2: 1})
