"""What a spend must leave to runs that wait, and what a child may use with all below it."""

import pytest

from answerbus.budget import Budget, Spent, Usage
from answerbus.dead_letter import BudgetExhausted
from answerbus.private.ledger import AccountRecord
from services.worker.core.budget.account import Charged, Spend
from services.worker.core.budget.allowance import Allowance, Cap, minimum_after
from services.worker.core.budget.ledger import Ledger, Reserved
from tests.unit.worker.builders import NOW, request

USAGE = Usage(input_tokens=10, output_tokens=0, micro_usd=1)


def spent(ledger: Ledger, limit: Budget, allowance: Allowance) -> Spend | Reserved | str:
    found = ledger.spend(request(budget=limit.model_dump()), 50, 5, NOW, allowance)
    return found.which if isinstance(found, BudgetExhausted) else found


@pytest.mark.parametrize(
    ("reserved_minimum", "limit", "which"),
    [
        ((1, 0, 0), Budget(attempts=1), "attempts"),
        ((2, 0, 0), Budget(attempts=2), "attempts"),
        ((1, 60, 0), Budget(attempts=9, tokens=109), "tokens"),
        ((1, 0, 6), Budget(attempts=9, micro_usd=10), "micro_usd"),
    ],
)
def test_what_runs_that_wait_need_is_not_spent(
    reserved_minimum: Charged, limit: Budget, which: str
) -> None:
    assert spent(Ledger(), limit, Allowance(reserved_minimum)) == which


def test_what_is_above_the_reserved_minimum_is_spent() -> None:
    ledger, limit = Ledger(), Budget(attempts=3, tokens=110, micro_usd=11)
    allowance = Allowance((1, 60, 6))

    assert isinstance(spent(ledger, limit, allowance), Spend)
    assert isinstance(spent(ledger, limit, allowance), Reserved)  # the first may give some back


def test_a_cap_is_used_up_or_waits_for_calls_in_flight() -> None:
    limit = Budget(attempts=9)

    assert isinstance(spent(Ledger(), limit, Allowance(caps=(Cap(2, used=1),))), Spend)
    assert spent(Ledger(), limit, Allowance(caps=(Cap(5, 0), Cap(2, used=2)))) == "attempts"
    assert spent(Ledger(), limit, Allowance(caps=(Cap(2, used=1, kept=1),))) == "attempts"
    waits = Allowance(caps=(Cap(2, used=1, in_flight=1),))
    assert isinstance(spent(Ledger(), limit, waits), Reserved)


def test_attempts_that_do_not_count_are_in_no_cap_also_after_a_restart() -> None:
    ledger, limit = Ledger(), Budget(attempts=9)
    for counted in (True, False, False, True):
        one = spent(ledger, limit, Allowance())
        assert isinstance(one, Spend)
        ledger.settle(one, USAGE, NOW, counted=counted)
    (account,) = ledger.accounts.values()
    name = request().request_id
    assert account.counted_of(name) == 2

    again = Ledger()
    again.restore(AccountRecord.model_validate_json(account.json()))
    (restored,) = again.accounts.values()
    assert (restored.counted_of(name), restored.open[name]) == (2, 4)
    restored.end(name)
    assert restored.counted_of(name) == 0


def test_what_is_left_is_the_least_of_account_and_caps() -> None:
    allowance = Allowance((1, 0, 0), (Cap(9, used=2), Cap(4, used=2, in_flight=1)))

    assert allowance.attempts_left(20) == 2
    assert allowance.attempts_left(2) == 1
    assert Allowance().attempts_left(7) == 7
    assert [allowance.attempts_now(left) for left in (20, 2)] == [2, 1]


@pytest.mark.parametrize(
    ("limit", "minimum"),
    [
        (Budget(), Spent()),
        (Budget(tokens=9), Spent(tokens=5)),
        (Budget(micro_usd=9), Spent(micro_usd=6)),
    ],
)
def test_a_run_keeps_what_its_next_step_may_cost_of_what_is_limited(
    limit: Budget, minimum: Spent
) -> None:
    assert minimum_after(limit, tokens=5, micro_usd=6) == minimum
