"""The limit of a workflow: the sum of what its requests have, or what one of them has named."""

from datetime import timedelta
from typing import Any

import pytest

from answerbus.account_id import replay_account
from answerbus.budget import Budget, Usage
from answerbus.failure import Unknown
from answerbus.limits import ATTEMPTS_MAX
from answerbus.outcome import Origin
from answerbus.request import Context, Prior, Replay, Request, TextRef
from services.worker.core.budget.account import Spend
from services.worker.core.budget.accounts import (
    ACCOUNT_IDLE,
    ACCOUNT_MEMORY,
    AccountMemory,
    Accounts,
)
from services.worker.core.budget.ledger import Ledger, closed_record
from tests.unit.worker.builders import NOW

DIGEST = "sha256:" + "0" * 64


def request(name: str, **more: Any) -> Request:
    return Request(
        request_id=name,
        workflow_id="w",
        answer_schema=TextRef(),
        context=Context(instructions="Say it."),
        **more,
    )


def at(offset: int, later_ms: int = 0) -> Origin:
    moment = NOW + timedelta(milliseconds=later_ms)
    return Origin(topic="requests", partition=0, offset=offset, timestamp=moment)


def limit(ledger: Ledger) -> Budget:
    return ledger.accounts["w"].limit


def test_each_new_request_without_a_budget_adds_its_own_attempts() -> None:
    ledger = Ledger()
    for offset, attempts in ((4, 3), (5, 6), (9, 9)):
        assert ledger.take_in(request(f"r-{offset}"), at(offset), NOW) is None
        assert limit(ledger) == Budget(attempts=attempts)


def test_what_is_read_again_does_not_add_again() -> None:
    ledger = Ledger()
    for offset in (4, 5, 4, 5):
        ledger.take_in(request(f"r-{offset}"), at(offset), NOW)

    assert limit(ledger) == Budget(attempts=6)


def test_what_is_read_again_does_not_add_again_where_a_new_leader_has_an_earlier_clock() -> None:
    ledger = Ledger()
    places = at(4), at(5, later_ms=20), at(6, later_ms=10)
    for place in (*places, *places):
        ledger.take_in(request(f"r-{place.offset}"), place, NOW)

    assert limit(ledger) == Budget(attempts=9)


def test_a_child_neither_adds_to_the_limit_nor_settles_it() -> None:
    ledger, parent = Ledger(), {"request_id": "r-1", "call_id": "r-1.call.1.0"}
    ledger.take_in(request("r-1"), at(1), NOW)
    ledger.take_in(request("r-2", parent=parent), at(2), NOW)
    ledger.take_in(request("r-3", parent=parent, budget=Budget(attempts=9)), at(3), NOW)
    ledger.take_in(request("r-4"), at(4), NOW)

    assert limit(ledger) == Budget(attempts=6)


def test_the_sum_is_a_limit_that_a_budget_can_have() -> None:
    ledger = Ledger()
    for offset in (1, 2):
        run = request(f"r-{offset}").model_copy(update={"budget": Budget(attempts=ATTEMPTS_MAX)})
        run.model_fields_set.discard("budget")
        ledger.take_in(run, at(offset), NOW)

    assert limit(ledger) == Budget(attempts=ATTEMPTS_MAX)


def test_offsets_begin_again_in_a_topic_that_was_made_again() -> None:
    ledger = Ledger()
    ledger.take_in(request("r-4"), at(400), NOW)
    ledger.take_in(request("r-5"), at(0, later_ms=1), NOW)

    assert limit(ledger) == Budget(attempts=6)


def test_requests_that_wait_keep_the_account_that_they_have_added_to() -> None:
    """It is a week old while they wait: a batch that comes each week, and a provider that is away.

    Forgotten, it had the attempts of one of them, for all.
    """
    ledger = Ledger()
    ledger.take_in(request("r-1"), at(1), NOW)
    next_week = NOW + ACCOUNT_MEMORY
    for offset in (2, 3):
        ledger.take_in(request(f"r-{offset}"), at(offset), next_week - timedelta(seconds=1))
    for _ in range(3):
        assert isinstance(ledger.spend(request("r-2"), 10, 0, next_week + ACCOUNT_IDLE), Spend)
    ledger.forget(next_week + 2 * ACCOUNT_IDLE, 0)

    assert isinstance(ledger.spend(request("r-3"), 10, 0, next_week + ACCOUNT_IDLE), Spend)


def test_the_next_request_opens_an_account_that_is_too_old_with_what_it_has() -> None:
    ledger, later = Ledger(), NOW + ACCOUNT_MEMORY + timedelta(seconds=1)
    ledger.take_in(request("r-1", budget=Budget(attempts=1)), at(1), NOW)
    ledger.close(closed_record("r-1", "w", DIGEST, "result", 1, NOW), "w")
    for offset in (2, 3):
        assert ledger.take_in(request(f"r-{offset}"), at(offset), later) is None

    assert limit(ledger) == Budget(attempts=6)


def test_a_replay_has_an_account_of_its_own_in_its_workflow() -> None:
    replay = Replay(dead_letter_id="d", round=1, account="w~0", by="ops", edited=False)
    account = Ledger().account(request("r-1", replay=replay), NOW)

    assert (account.id, account.workflow_id) == (replay_account("w", "d"), "w")


def test_a_budget_that_is_named_first_holds_for_the_whole_workflow() -> None:
    ledger = Ledger()
    ledger.take_in(request("r-1", budget=Budget(attempts=2)), at(1), NOW)
    ledger.take_in(request("r-2"), at(2), NOW)
    same = ledger.take_in(request("r-3", budget=Budget(attempts=2)), at(3), NOW)
    other = ledger.take_in(request("r-4", budget=Budget(attempts=50)), at(4), NOW)

    assert limit(ledger) == Budget(attempts=2)
    assert same is None
    assert other == (
        "its budget is not used: request r-1 has settled that of the workflow, 2 attempts in all; "
        "a replay has a budget of its own"
    )


def test_a_budget_that_is_named_later_holds_from_then_on() -> None:
    ledger = Ledger()
    ledger.take_in(request("r-1"), at(1), NOW)
    for name in ("r-1", "r-1"):
        ledger.spend(request(name), 10, 0, NOW)
    assert ledger.take_in(request("r-2", budget=Budget(attempts=1)), at(2), NOW) is None
    ledger.take_in(request("r-3"), at(3), NOW)
    again = ledger.take_in(request("r-2", budget=Budget(attempts=1)), at(2), NOW)

    assert limit(ledger) == Budget(attempts=2), "not below what was charged"
    assert again is None


@pytest.mark.parametrize(
    ("named", "settled"),
    [
        (
            Budget(attempts=5, tokens=100, micro_usd=50),
            Budget(attempts=5, tokens=100, micro_usd=50),
        ),
        (Budget(attempts=5, tokens=1, micro_usd=2), Budget(attempts=5, tokens=10, micro_usd=7)),
    ],
)
def test_a_budget_of_tokens_and_money_that_is_named_later_is_not_below_what_was_charged(
    named: Budget, settled: Budget
) -> None:
    ledger = Ledger()
    ledger.take_in(request("r-1"), at(1), NOW)
    ledger.spend(request("r-1"), 10, 7, NOW)
    ledger.take_in(request("r-2", budget=named), at(2), NOW)

    assert limit(ledger) == settled


def test_a_follow_up_adds_nothing() -> None:
    ledger, prior = Ledger(), (Prior(attempt=1, failure=Unknown()),)
    ledger.take_in(request("r-1", prior=prior), at(1), NOW)
    ledger.take_in(request("r-2", prior=prior), at(2), NOW)

    assert limit(ledger) == Budget(attempts=3)


@pytest.mark.parametrize(("first", "second", "both"), [(None, 5, None), (5, None, 5), (5, 6, 11)])
def test_tokens_and_money_add_up_where_both_are_limited(
    first: int | None, second: int | None, both: int | None
) -> None:
    """Of runs: their agents say how much each has."""
    ledger = Ledger()
    for offset, most in enumerate((first, second)):
        own = Budget(tokens=most, micro_usd=most)
        run = request(f"r-{offset}").model_copy(update={"budget": own})
        run.model_fields_set.discard("budget")
        ledger.take_in(run, at(offset), NOW)

    assert limit(ledger) == Budget(attempts=6, tokens=both, micro_usd=both)


def test_an_account_is_kept_while_requests_wait_however_short_it_is_remembered() -> None:
    remember = timedelta(minutes=1)
    ledger = Ledger(accounts=Accounts(AccountMemory(remember, timedelta(seconds=3))))
    for offset in (4, 5):
        ledger.take_in(request(f"r-{offset}"), at(offset), NOW)
    for seconds in range(0, 600, 10):
        ledger.forget(NOW + timedelta(seconds=seconds), 0)
    later = NOW + timedelta(seconds=600)

    assert isinstance(ledger.spend(request("r-5"), 1, 1, later), Spend)
    assert limit(ledger) == Budget(attempts=6)
    ledger.settle(spend_of(ledger), Usage(), later, counted=True)
    for offset in (5, 4):
        assert "w" in ledger.accounts
        closes = f"r-{offset}"
        ledger.close(closed_record(closes, "w", DIGEST, "result", offset, later), "w")
        for seconds in range(0, 600, 10):
            ledger.forget(later + timedelta(seconds=seconds), 0)
    assert "w" not in ledger.accounts


def spend_of(ledger: Ledger) -> Spend:
    (spend,) = ledger.accounts["w"].in_flight.values()
    return spend
