"""Calls left over at an opening are charged or given back, and suspects are found among them."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from answerbus.attempt import Attempt
from answerbus.private.ledger import LaneRecord, Suspect, WorkInProgress
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Spend
from services.worker.core.budget.ledger import Ledger, closed_record
from services.worker.lane.opening import RecoveredState
from services.worker.lane.recovery import settle_orphaned_calls, suspects_after
from tests.unit.worker.builders import NOW, request

A, B, C = "r-a", "r-b", "r-c"
WORKFLOW = "w-0"


@dataclass
class Found:
    """A ledger with the call of a request in flight for each name, the first called last."""

    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        budget = {"attempts": 9}
        self.spends = {
            name: self._spent(name, age, budget) for age, name in enumerate((A, B, C), start=1)
        }

    def _spent(self, name: str, age: int, budget: dict[str, int]) -> Spend:
        at = NOW - timedelta(seconds=age)
        spend = self.ledger.spend(request(name, WORKFLOW, budget=budget), 100, 0, at)
        assert isinstance(spend, Spend)
        return spend

    def settled(self, *, calls: str = "", unused: str = "") -> list[Attempt]:
        kept = {self.spends[name] for name in calls.split()}
        free = {self.spends[name] for name in unused.split()}
        return settle_orphaned_calls(self.ledger, kept, free, NOW, "me")


def left_over(**lane: object) -> RecoveredState:
    fields = {"partitions": 1, "openings_without_progress": 0, "worker": "before", "at": NOW}
    recovered = RecoveredState(Found().ledger)
    recovered.ledger.lane = LaneRecord.model_validate({**fields, **lane})
    return recovered


def orphaned(*, unused: str = "") -> list[Attempt]:
    return Found().settled(unused=unused)


def key(name: str) -> RequestKey:
    return RequestKey(WORKFLOW, name)


def test_left_over_calls_are_charged_in_the_order_in_which_they_were_called() -> None:
    found = Found()
    attempts = found.settled()

    assert [one.request_id for one in attempts] == [C, B, A]
    assert {(one.outcome, one.counted) for one in attempts} == {("unknown", True)}
    account = found.ledger.accounts[WORKFLOW]
    assert (account.charged, dict(account.in_flight)) == ((3, 300, 0), {})


def test_a_call_that_goes_on_stays_in_flight_and_one_that_never_began_costs_nothing() -> None:
    found = Found()
    attempts = found.settled(calls=A, unused=B)

    said = [(one.request_id, one.outcome, one.counted) for one in attempts]
    assert said == [(C, "unknown", True), (B, "released", False)]
    account = found.ledger.accounts[WORKFLOW]
    assert account.charged == (1, 100, 0)
    assert list(account.in_flight.values()) == [found.spends[A]]


def test_who_was_called_when_a_worker_ended_is_a_suspect_but_not_what_never_began() -> None:
    suspects = suspects_after(left_over(), orphaned(unused=B), same_process=False)

    assert list(suspects.found) == [key(C), key(A)]
    assert {one.crashes for one in suspects.found.values()} == {1}


@pytest.mark.parametrize(("same_process", "was_alive"), [(True, False), (False, True)])
def test_nothing_is_blamed_where_no_worker_ended(same_process: bool, was_alive: bool) -> None:
    mark = WorkInProgress(what="preparation", **key(A)._asdict())
    recovered = left_over(watched=mark)
    recovered.was_alive = was_alive
    suspects = suspects_after(recovered, orphaned(), same_process=same_process)

    assert suspects.found == {}


def test_a_mark_is_blamed_without_a_call() -> None:
    mark = WorkInProgress(what="preparation", **key(A)._asdict())
    suspects = suspects_after(left_over(watched=mark), [], same_process=False)

    assert suspects.found == {key(A): Suspect(**key(A)._asdict(), prepared=1)}


def test_earlier_suspects_are_kept_but_those_that_have_ended() -> None:
    listed = tuple(Suspect(**key(name)._asdict(), crashes=2) for name in (A, B))
    recovered = left_over(suspects=listed)
    closed = closed_record(A, WORKFLOW, f"sha256:{'0' * 64}", "result", 0, NOW)
    recovered.ledger.close(closed, None)
    suspects = suspects_after(recovered, [], same_process=False)

    assert suspects.found == {key(B): listed[1]}


def test_a_lane_that_no_worker_had_has_no_suspects() -> None:
    suspects = suspects_after(RecoveredState(), orphaned(), same_process=False)

    assert suspects.found == {}
