"""Packed accounts are the accounts that were packed, however often, and take little memory."""

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from answerbus.budget import Budget
from answerbus.limits import ATTEMPTS_MAX, WORKFLOW_ID_CHARS_MAX
from services.worker.core.budget.account import Account, Spend
from services.worker.core.budget.accounts import (
    PACKED_AT_ONCE,
    ROWS_PER_BUCKET,
    SWEEP_EVERY,
    AccountMemory,
    Accounts,
    PackedAccounts,
    is_open,
)
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import NOW

IDLE, REMEMBER = timedelta(seconds=3), timedelta(hours=1)
MEMORY = AccountMemory(REMEMBER, IDLE)
BYTES_EACH_MAX = 110  # with ids of 36 characters; an object takes 320
MANY = 20_000

_IDS = st.text(min_size=1, max_size=WORKFLOW_ID_CHARS_MAX)
_AMOUNTS = st.one_of(st.integers(0, 300), st.integers(0, 2**70))
_LIMITS = st.builds(
    Budget,
    attempts=st.integers(0, ATTEMPTS_MAX),
    tokens=st.none() | _AMOUNTS,
    micro_usd=st.none() | _AMOUNTS,
)
_TIMES = st.datetimes(timezones=st.just(UTC))
_ACCOUNTS = st.builds(
    Account,
    id=_IDS,
    workflow_id=_IDS,
    limit=_LIMITS,
    updated_at=_TIMES,
    charged=st.tuples(_AMOUNTS, _AMOUNTS, _AMOUNTS),
    packed_hash=st.none() | st.binary(min_size=32, max_size=32),
    tools_micro_usd=_AMOUNTS,
)


def account(name: str, at: datetime = NOW) -> Account:
    return Account(name, name, Budget(attempts=9), at, (1, 812, 5_230), packed_hash=bytes(32))


@pytest.mark.wide
@given(st.lists(_ACCOUNTS, unique_by=lambda it: it.id, max_size=60))
@settings(deadline=None)
def test_what_is_packed_is_taken_as_it_was(given_accounts: list[Account]) -> None:
    packed = PackedAccounts()
    for one in given_accounts:
        packed.put(one)

    assert sorted(packed) == sorted(one.id for one in given_accounts)
    for one in given_accounts:
        assert packed.take(one.id) == one
        assert packed.take(one.id) is None
    assert len(packed) == 0


@pytest.mark.wide
def test_a_million_workflows_take_little_memory() -> None:
    """Measured with fewer; the table grows by one bucket at a time, so that each costs the same."""
    packed = PackedAccounts()
    tracemalloc.start()
    for n in range(MANY):
        packed.put(account(f"{n:036}"))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used / MANY < BYTES_EACH_MAX
    assert packed.bucket_count + 1 >= MANY / ROWS_PER_BUCKET


@pytest.mark.wide
def test_packing_takes_microseconds() -> None:
    accounts, packed = [account(f"{n:036}") for n in range(MANY)], PackedAccounts()
    with cpu_time() as spent:
        for one in accounts:
            packed.put(one)
    assert spent.is_below(MANY * 20e-6)


def test_an_account_with_an_open_request_is_not_packed() -> None:
    accounts, busy = Accounts(MEMORY), account("busy")
    accounts.put(busy, NOW)
    busy.put(Spend("busy", "r", 1, 0, 0, NOW))

    accounts.pack(NOW + IDLE)
    assert accounts["busy"] is busy

    busy.take(Spend("busy", "r", 1, 0, 0, NOW))
    busy.end("r")
    accounts.rest(busy, NOW + IDLE)
    accounts.pack(NOW + IDLE)
    assert accounts["busy"] is busy
    accounts.pack(NOW + 2 * IDLE)
    assert accounts["busy"] is not busy
    assert accounts["busy"] == busy


def test_many_accounts_are_packed_and_looked_through_in_steps() -> None:
    accounts = Accounts(AccountMemory(timedelta(days=7), IDLE))
    for n in range(PACKED_AT_ONCE + 1):
        accounts.put(account(f"w-{n}"), NOW)

    accounts.pack(NOW + IDLE)
    assert len(list(accounts.live())) == 1
    accounts.pack(NOW + IDLE)
    assert not list(accounts.live())
    assert accounts.forget(NOW + IDLE) == []

    late, forgotten = NOW + timedelta(days=8), list[str]()
    accounts._swept_at = late  # as if the last round had ended just now
    for step in range(1, 61):
        found = accounts.forget(late + step / 60 * SWEEP_EVERY)
        assert len(found) < len(accounts) + len(found) or step == 60
        forgotten += found
    assert len(forgotten) == len(set(forgotten)) == PACKED_AT_ONCE + 1
    assert not accounts


class AccountTable(RuleBasedStateMachine):
    """In any order, the accounts are those of a plain dict."""

    names = st.sampled_from([f"w-{n}" for n in range(60)])

    def __init__(self) -> None:
        super().__init__()
        self.now, self.accounts = NOW, Accounts(MEMORY)
        self.expected: dict[str, Account] = {}

    @rule(name=names, amount=st.integers(0, 2**40))
    def change(self, name: str, amount: int) -> None:
        found = self.accounts.get(name)
        assert found == self.expected.get(name)
        if found is None:
            found = account(name, self.now)
            self.accounts.put(found, self.now)
        found.charged = (found.charged[0] + 1, amount, amount)
        found.updated_at = self.now
        self.expected[name] = replace(found)

    @rule(name=names)
    def open_and_end(self, name: str) -> None:
        found = self.accounts.get(name)
        if found is None:
            return
        spend = Spend(name, "r", 1, 0, 0, self.now)
        found.put(spend)
        self.accounts.pack(self.now + IDLE)
        assert self.accounts[name] is found
        found.take(spend)
        found.end("r")
        self.accounts.rest(found, self.now)

    @rule(name=names)
    def restore(self, name: str) -> None:
        self.expected[name] = account(name, self.now)
        self.accounts.restore(account(name, self.now))

    @rule(name=names)
    def discard(self, name: str) -> None:
        self.expected.pop(name, None)
        self.accounts.discard(name)

    @rule(seconds=st.integers(0, 2_000))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.accounts.pack(self.now)
        for name in self.accounts.forget(self.now):
            assert self.now - self.expected.pop(name).updated_at > REMEMBER

    @invariant()
    def none_is_lost(self) -> None:
        assert len(self.accounts) == len(self.expected)
        assert set(self.accounts) == self.expected.keys()
        assert not any(is_open(one) for one in self.accounts.live())


AccountTable.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAccountTable = pytest.mark.wide(AccountTable.TestCase)
