"""Accounts never promise more than their limit; what is closed is known as long as it must be."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from answerbus.budget import Budget, Spent, Usage
from answerbus.dead_letter import BudgetExhausted
from answerbus.envelope import decode
from answerbus.limits import ENVELOPE_EXTRA_BYTES_MAX, RECORD_BYTES_MAX
from answerbus.private.ledger import AccountRecord
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import AppendPosition, Spend
from services.worker.core.budget.accounts import (
    ACCOUNT_IDLE,
    ACCOUNT_MEMORY,
    AccountMemory,
    Accounts,
)
from services.worker.core.budget.closed import CLOSED_MEMORY
from services.worker.core.budget.ledger import (
    ENDED_MAX,
    OPEN_MAX,
    Ledger,
    Reserved,
    closed_record,
)
from tests.unit.worker.builders import NOW, ORIGIN, after, request

DIGEST = "sha256:" + "0" * 64


def spend(
    ledger: Ledger,
    request_id: str = "r-1",
    now: datetime = NOW,
    **budget: int,
) -> Spend | Reserved | BudgetExhausted:
    allowed: dict[str, Any] = {"attempts": 3, **budget}
    return ledger.spend(request(request_id, budget=allowed), 10, 5, now)


def spent(ledger: Ledger, request_id: str = "r-1", now: datetime = NOW, **budget: int) -> Spend:
    found = spend(ledger, request_id, now=now, **budget)
    assert isinstance(found, Spend)
    return found


def reread(ledger: Ledger) -> Ledger:
    """The ledger as a successor finds it: through the bytes of its records."""
    again = Ledger()
    for account in ledger.accounts.values():
        event = decode(account.json())
        assert isinstance(event, AccountRecord)
        assert event.model_dump_json().encode() == account.json(), "no field more or less"
        again.restore(event)
    return again


def close(ledger: Ledger, closes: str, at: datetime, offset: int = 0) -> None:
    ledger.close(closed_record(closes, "w-0", DIGEST, "result", offset, at), "w-0")


def with_a_closed_request(ledger: Ledger) -> None:
    ledger.settle(spent(ledger), Usage(), NOW, counted=True)
    close(ledger, "r-1", NOW)


def test_equal_budgets_of_workflows_are_kept_once() -> None:
    ledger = Ledger()
    for n in range(2):
        one = request(f"r-{n}", f"w-{n}", budget={"attempts": 3, "tokens": 9})
        ledger.take_in(one, ORIGIN, NOW)

    assert ledger.accounts["w-0"].limit is ledger.accounts["w-1"].limit


def test_the_first_request_freezes_the_limit() -> None:
    ledger = Ledger()
    spent(ledger, "r-1", attempts=1)

    assert spend(ledger, "r-2", attempts=99) == Reserved()
    assert ledger.accounts["w-0"].limit == Budget(attempts=1)


@pytest.mark.parametrize(
    ("budget", "which"),
    [({"attempts": 0}, "attempts"), ({"tokens": 9}, "tokens"), ({"micro_usd": 4}, "micro_usd")],
)
def test_what_can_never_be_had_is_exhausted(budget: Any, which: Any) -> None:
    assert spend(Ledger(), **budget) == BudgetExhausted(which=which)


@pytest.mark.parametrize("budget", [{"attempts": 1}, {"tokens": 19}, {"micro_usd": 9}])
def test_what_calls_in_flight_may_yet_give_back_is_waited_for(budget: Any) -> None:
    ledger = Ledger()
    first = spent(ledger, "r-1", **budget)

    assert spend(ledger, "r-2") == Reserved()

    ledger.settle(first, Usage(), NOW, counted=False)

    assert isinstance(spend(ledger, "r-2"), Spend)


def test_reported_usage_takes_the_place_of_the_worst_case() -> None:
    ledger = Ledger()
    used = Usage(input_tokens=2, output_tokens=1, micro_usd=4)

    ledger.settle(spent(ledger), used, NOW, counted=True)

    assert ledger.accounts["w-0"].spent == Spent(attempts=1, tokens=3, micro_usd=4)


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=2), Usage(output_tokens=2)])
def test_what_was_not_reported_stays_at_its_worst_case(usage: Usage) -> None:
    ledger = Ledger()

    ledger.settle(spent(ledger), usage, NOW, counted=True)

    assert ledger.accounts["w-0"].spent == Spent(attempts=1, tokens=10, micro_usd=5)


def test_an_account_with_very_many_requests_under_way_still_fits_its_topic() -> None:
    """A record that no broker takes would be tried for ever."""
    ledger = Ledger()
    ids = [f"{number:0128}" for number in range(OPEN_MAX + 1)]
    spends = [spent(ledger, request_id, attempts=1_000_000) for request_id in ids[:-1]]

    assert spend(ledger, ids[-1]) == Reserved()
    size = len(ledger.accounts["w-0"].json())
    assert RECORD_BYTES_MAX / 2 < size < RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX

    ledger.settle(spends[0], Usage(), NOW, counted=True)

    assert isinstance(spend(ledger, ids[0]), Spend), "those that are under way go on"


def test_numbers_of_attempts_never_repeat_not_even_over_a_crash() -> None:
    ledger = Ledger()
    first = spent(ledger, attempts=9)
    ledger.settle(first, Usage(), NOW, counted=False)
    restored = reread(ledger)

    assert (first.attempt, spent(restored).attempt, spent(restored).attempt) == (1, 2, 3)


def test_each_change_of_an_account_goes_with_the_next_write() -> None:
    ledger = Ledger()
    one = spent(ledger)
    assert [account.id for account in ledger.take_changed()] == ["w-0"]
    ledger.settle(one, Usage(), NOW, counted=True)
    assert [account.id for account in ledger.take_changed()] == ["w-0"]
    ledger.charge_tool("w-0", 3, NOW)
    assert [account.json() for account in ledger.take_changed()] == [ledger.accounts["w-0"].json()]
    close(ledger, "r-1", NOW)
    assert [account.id for account in ledger.take_changed()] == ["w-0"]
    assert list(ledger.take_changed()) == []


def test_each_request_of_an_account_has_attempts_of_its_own() -> None:
    ledger = Ledger()
    made = [spent(ledger, name, attempts=9) for name in ("r-1", "r-2", "r-1")]
    for one, counted in zip(made, (False, False, True), strict=True):
        ledger.settle(one, Usage(), NOW, counted=counted)
    made.append(spent(ledger, "r-2", attempts=9))
    account = ledger.accounts["w-0"]

    assert [one.attempt for one in made] == [1, 1, 2, 2]
    assert [account.counted_of(name) for name in ("r-1", "r-2")] == [1, 0]
    assert [account.in_flight_of(name) for name in ("r-1", "r-2")] == [0, 1]


def test_a_spend_is_settled_once() -> None:
    ledger = Ledger()
    one = spent(ledger)
    ledger.settle(one, Usage(), NOW, counted=True)

    with pytest.raises(KeyError):
        ledger.settle(one, Usage(), NOW, counted=True)
    assert ledger.accounts["w-0"].charged == (1, 10, 5)


@pytest.mark.parametrize("shared_by", ["", "r-1", (5, 1_000)])
def test_an_account_is_read_back_as_it_was(shared_by: str | AppendPosition) -> None:
    ledger = Ledger()
    for name in ("r-1", "r-2"):
        spent(ledger, name, attempts=9)
    account = ledger.accounts["w-0"]
    account.workflow_id, account.shared_by, account.tools_micro_usd = "w", shared_by, 7
    account.set_minimum("r-2", reserved=True)
    assert account.reserving == {"r-2"}

    assert reread(ledger).accounts["w-0"] == account
    account.end("r-2")
    assert not account.reserving


def test_a_spend_is_recognised_when_it_is_read_back() -> None:
    """A clock has microseconds and records have not: a lane would else disown its own calls."""
    ledger = Ledger()
    spend = spent(ledger, now=NOW + timedelta(microseconds=123_456))

    restored = reread(ledger)

    assert restored.holds(spend)
    assert list(restored.accounts["w-0"].in_flight.values()) == [spend]
    assert restored == reread(restored)


def test_anothers_spend_of_the_same_number_is_not_ours() -> None:
    """What we never committed, somebody else may have done meanwhile, under the same number."""
    ours, theirs = Ledger(), Ledger()
    spend = spent(ours, now=NOW)
    spent(theirs, now=after(30))

    assert not theirs.holds(spend)


def test_closing_ends_the_count_of_attempts() -> None:
    ledger = Ledger()
    ledger.settle(spent(ledger), Usage(), NOW, counted=True)
    close(ledger, "r-1", NOW)

    assert ledger.accounts["w-0"].open == {}
    known = ledger.known(RequestKey("w-0", "r-1"))
    assert known
    assert known.has_body(DIGEST)
    assert not known.has_body("sha256:" + "1" * 64)


def test_ids_expire_after_a_day() -> None:
    ledger = Ledger()
    close(ledger, "old", NOW, offset=1)
    close(ledger, "young", after(3600), offset=2)

    ledger.forget(NOW + CLOSED_MEMORY, committable=3)
    assert ledger.known(RequestKey("w-0", "old"))

    ledger.forget(NOW + CLOSED_MEMORY + timedelta(seconds=1), committable=3)
    assert (
        ledger.known(RequestKey("w-0", "old")),
        ledger.known(RequestKey("w-0", "young")) is None,
    ) == (None, False)


def test_what_may_be_delivered_again_is_known_however_long_the_lane_was_shut() -> None:
    """A worker that was down for a weekend must not answer twice what it finished on Friday."""
    ledger = Ledger()
    close(ledger, "r-1", NOW, offset=7)

    ledger.forget(NOW + timedelta(days=3), committable=7)
    assert ledger.known(RequestKey("w-0", "r-1"))

    ledger.forget(NOW + timedelta(days=3), committable=8)
    assert ledger.known(RequestKey("w-0", "r-1")) is None


def test_accounts_expire_a_week_after_their_last_event() -> None:
    ledger = Ledger()
    with_a_closed_request(ledger)
    ledger.account(request("r-2", "busy"), NOW + ACCOUNT_MEMORY)

    ledger.forget(NOW + ACCOUNT_MEMORY + timedelta(seconds=1), committable=0)

    assert list(ledger.accounts) == ["busy"]
    assert ledger.take_forgotten() == ["w-0"], "what the ledger topic says of it is to be ended"
    assert ledger.take_forgotten() == []


def test_how_long_accounts_are_known_is_chosen() -> None:
    ledger = Ledger(accounts=Accounts(AccountMemory(timedelta(hours=1))))
    with_a_closed_request(ledger)

    ledger.forget(NOW + timedelta(minutes=59), committable=0)
    assert list(ledger.accounts) == ["w-0"]
    ledger.forget(NOW + timedelta(minutes=62), committable=0)
    assert not ledger.accounts, "they are looked through every 150 seconds then"


def test_the_record_of_an_account_that_is_opened_again_stays() -> None:
    ledger = Ledger()
    with_a_closed_request(ledger)
    later = NOW + ACCOUNT_MEMORY + timedelta(seconds=1)
    ledger.forget(later, committable=0)

    ledger.account(request("r-2", "w-0"), later)

    assert ledger.take_forgotten() == []


def test_many_forgotten_accounts_are_ended_in_several_steps() -> None:
    ledger = Ledger()
    for n in range(ENDED_MAX + 1):
        ledger.account(request("r", f"w-{n}"), NOW)
    ledger.forget(NOW + 2 * ACCOUNT_MEMORY, committable=0)

    assert [len(ledger.take_forgotten()) for _ in range(3)] == [ENDED_MAX, 1, 0]


def test_an_account_with_an_open_request_never_expires() -> None:
    """Its next attempt may be due after longer than that, and its budget counts those before."""
    ledger = Ledger(accounts=Accounts(AccountMemory(timedelta(minutes=1))))
    ledger.settle(spent(ledger), Usage(), NOW, counted=True)

    ledger.forget(NOW + timedelta(hours=1), committable=0)

    assert list(ledger.accounts) == ["w-0"]


def test_an_account_with_a_call_in_flight_never_expires() -> None:
    ledger = Ledger()
    spent(ledger)

    ledger.forget(NOW + 2 * ACCOUNT_MEMORY, committable=0)

    assert list(ledger.accounts) == ["w-0"]


class AccountRules(RuleBasedStateMachine):
    """Spends, settlements and crashes in any order never promise more than the limit."""

    LIMIT = Budget(attempts=4, tokens=60, micro_usd=25)

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.open: list[Spend] = []
        self.numbers: set[tuple[str, int]] = set()
        self.counted = 0

    @rule(name=st.sampled_from("abc"), tokens=st.integers(0, 40), cost=st.integers(0, 12))
    def spend(self, name: str, tokens: int, cost: int) -> None:
        limit = self.LIMIT.model_dump()
        found = self.ledger.spend(request(name, budget=limit), tokens, cost, NOW)
        if isinstance(found, Spend):
            assert (name, found.attempt) not in self.numbers
            self.numbers.add((name, found.attempt))
            self.open.append(found)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), counted=st.booleans(), reported=st.booleans())
    def settle(self, data: st.DataObject, counted: bool, reported: bool) -> None:
        spend = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        assert self.ledger.holds(spend)
        used = data.draw(st.integers(0, spend.tokens))
        cost = data.draw(st.integers(0, spend.micro_usd))
        usage = Usage(input_tokens=used, output_tokens=0, micro_usd=cost) if reported else Usage()
        self.ledger.settle(spend, usage, NOW, counted=counted)
        self.counted += counted
        assert not self.ledger.holds(spend)

    @rule()
    def crash(self) -> None:
        self.ledger = reread(self.ledger)

    @rule()
    def rest(self) -> None:
        self.ledger.forget(NOW + ACCOUNT_IDLE, committable=0)

    @invariant()
    def the_limit_holds(self) -> None:
        for account in self.ledger.accounts.values():
            pending = account.in_flight.values()
            tokens = account.spent.tokens + sum(spend.tokens for spend in pending)
            cost = account.spent.micro_usd + sum(spend.micro_usd for spend in pending)
            assert list(pending) == self.open
            assert account.spent.attempts == self.counted
            assert account.spent.attempts + len(pending) <= 4
            assert tokens <= 60
            assert cost <= 25


AccountRules.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestAccounts = pytest.mark.wide(AccountRules.TestCase)
