"""A budget that lanes share is never exceeded, and whoever waits for it is answered."""

from collections import Counter
from datetime import timedelta
from unittest import mock

import pytest

from answerbus.budget import Spent
from answerbus.cause import BudgetExhausted
from answerbus.partition import partition_of
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.request_key import RequestKey
from answerbus.topics import LEASES
from services.worker.core.budget.ledger import Reserved
from services.worker.core.shared_budget.books import BudgetBooks
from services.worker.core.shared_budget.home import Home, LaneShare
from services.worker.core.shared_budget.rules import (
    ZERO,
    BudgetKey,
    BudgetRules,
    Limit,
    PeriodLimits,
)
from services.worker.lane.state.shared_budgets import SharedBudgets
from services.worker.ports.kafka import OutRecord
from tests.unit.worker.builders import NOW
from tests.unit.worker.lane.state.budget_histories import LANES, History, record_of

TENANT = {"tenant": "acme"}


def played(first: int, histories: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + histories):
        history = History(seed).play()
        history.check_books()
        outcomes += history.outcomes
    return outcomes


@pytest.mark.wide
def test_no_budget_is_exceeded_and_every_request_ends() -> None:
    outcomes = played(0, 3)

    assert outcomes["charged"] > 100
    assert outcomes["refused"] > 10


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_no_budget_is_exceeded_in_many_histories(first: int) -> None:
    assert played(first, 50)["refused"] > 100


def test_a_lease_that_is_kept_after_a_loss_exceeds_a_budget() -> None:
    """The histories notice a lane that forgets what it has spent of its lease."""

    def keep(books: BudgetBooks) -> None:
        for lease in books.leases.values():
            lease.used, lease.is_confirmed = ZERO, True

    def play() -> None:
        for seed in range(3):
            SameLimits(seed, keep, rules_of_tenants((20, None, None))).play()

    with pytest.raises(AssertionError):
        play()


@pytest.mark.parametrize(
    ("limit", "need", "asked", "charged"),
    [
        ((9, None, None), (1, 100, 0), 16, 9),  # pydantic-ai-harness#696: 16 calls
        ((150, None, None), (1, 100, 0), 512, 150),  # pi-subagents#1779: 512 calls
        ((None, None, 1_000_000), (1, 100, 50_000), 100, 20),  # LiteLLM#40095, #34732, #26672
        ((None, 1_000, None), (1, 300, 0), 100, 3),  # LiteLLM#12794: a batch skips the budget
    ],
    ids=["harness", "subagents", "litellm money", "litellm batch"],
)
def test_what_others_exceed_is_met_to_the_last_unit(
    limit: Limit, need: tuple[int, int, int], asked: int, charged: int
) -> None:
    """All ask at once, over all lanes, and each call costs its worst case."""
    history = History(1, rules=BudgetRules({"tenant": {"*": PeriodLimits(day=limit)}}))
    history.parts, history.loses_writes = (1.0,), False
    for number in range(asked):
        history.ask(number % LANES, TENANT, need)
    history.calm()

    assert history.outcomes == {"charged": charged, "refused": asked - charged}


def calm_history(day: Limit) -> History:
    """Without lost writes, and calls that cost their worst case."""
    history = History(1, rules=rules_of_tenants(day))
    history.parts, history.loses_writes = (1.0,), False
    return history


def rules_of_tenants(day: Limit) -> BudgetRules:
    return BudgetRules({"tenant": {"*": PeriodLimits(day=day)}})


def test_who_waits_for_a_call_that_was_lost_with_its_lane_is_answered() -> None:
    """It is charged in full, which only the lane that was opened again can say."""
    history = calm_history((None, None, 100))
    history.ask(0, TENANT, (1, 1, 60))
    history.hear_all()
    history.ask(1, TENANT, (1, 1, 50))
    history.hear_all()
    assert history.outcomes == {"charged": 1}

    history.reopen(0)
    history.calm()

    assert history.outcomes == {"charged": 1, "refused": 1}


@pytest.mark.parametrize("lanes", [1, 2, LANES])
def test_a_limit_that_is_new_counts_once_what_was_used_before(lanes: int) -> None:
    history = calm_history((None, None, 1_000))
    for number in range(6):
        history.ask(number % lanes, TENANT, (1, 1, 10))
        history.calm()

    history.set_rules(rules_of_tenants((10, None, 1_000)))
    history.calm()
    for _ in range(7):
        history.ask(0, TENANT, (1, 1, 10))
        history.calm()

    assert history.outcomes == {"charged": 10, "refused": 3}


def test_a_call_that_costs_nothing_is_made_where_more_is_spent_than_the_limit() -> None:
    """As by a profile without a price after the limit was lowered."""
    history = calm_history((10, None, 100))
    history.ask(0, TENANT, (1, 1, 60))
    history.calm()
    history.set_rules(rules_of_tenants((10, None, 50)))

    for need in (0, 1):
        history.ask(1, TENANT, (1, 1, need))
        history.calm()

    assert history.outcomes == {"charged": 2, "refused": 1}


def test_nobody_waits_for_a_lane_that_is_no_more() -> None:
    """After a move to fewer partitions, what it had stays charged; forged lanes are not heard."""
    key, wanted = BudgetKey("tenant:acme", f"{NOW:%Y-%m}"), Spent(micro_usd=50)
    share = BudgetShareRecord(
        budget=key.budget, window=key.window, lane=7, granted=Spent(micro_usd=60), asked=1, at=NOW
    )
    rules = BudgetRules({"tenant": {"*": PeriodLimits(month=(None, None, 100))}})
    home = SharedBudgets(0, 1, lambda _: None, rules)
    home.books.restore(share)
    home.opened(NOW)

    for lane in (0, 10**9):
        lease = BudgetLeaseRecord(
            budget=key.budget, window=key.window, lane=lane, asked=1, wanted=wanted, at=NOW
        )
        home.receive(lease, NOW)
    shares = home.books.homes[key].shares

    assert shares.keys() == {0, 7}
    assert (shares[0].answered, shares[0].room) == (1, (0, 0, 40))


def test_a_lane_holds_so_many_budgets_and_refuses_requests_with_others() -> None:
    rules = rules_of_tenants((10, None, None))
    lane = SharedBudgets(0, 1, lambda _: None, rules, leases_max=2)

    def claimed(number: int, tenant: str) -> object:
        return lane.claim(RequestKey("w", f"r-{number}"), {"tenant": tenant}, (1, 1, 1), NOW)

    refused = BudgetExhausted(which="attempts", budget="tenant:c")
    assert [claimed(*one) for one in enumerate("abca")] == [
        Reserved(),
        Reserved(),
        refused,
        Reserved(),
    ]


def test_a_home_keeps_so_many_shares_and_refuses_requests_with_other_budgets() -> None:
    """Its lanes have room for more leases than it has for their shares; its own count apart."""
    names = [str(number) for number in range(40)]
    budgets = [name for name in names if partition_of(f"tenant:{name}", 2) == 0][:3]
    elsewhere = next(name for name in names if partition_of(f"tenant:{name}", 2) == 1)
    rules = rules_of_tenants((10, None, None))
    home = SharedBudgets(0, 2, lambda _: None, rules, leases_max=2)
    lane = SharedBudgets(1, 2, lambda _: None, rules)
    assert home.claim(RequestKey("w", "own"), {"tenant": elsewhere}, (1, 1, 1), NOW) == Reserved()

    def claimed(number: int, tenant: str) -> object:
        request, labels = RequestKey("w", f"r-{number}"), {"tenant": tenant}
        asked = lane.claim(request, labels, (1, 1, 1), NOW)
        deliver(home, lane.take_unsent())
        deliver(lane, home.take_unsent())
        return asked, lane.claim(request, labels, (1, 1, 1), NOW)

    refused = BudgetExhausted(which="attempts", budget=f"tenant:{budgets[2]}")
    assert [claimed(*one) for one in enumerate([*budgets, budgets[0]])] == [
        (Reserved(), None),
        (Reserved(), None),
        (Reserved(), refused),
        (Reserved(), None),
    ]
    assert len(home.books.homes) == 2


def deliver(lane: SharedBudgets, written: tuple[OutRecord, ...]) -> None:
    """Take what another lane has written for it."""
    for record in written:
        if record.topic is LEASES and record.partition == lane.partition:
            lane.receive(record_of(record.value or b""), NOW)


def test_a_lane_that_was_given_back_more_than_it_holds_goes_on_with_these() -> None:
    """As one that has forgotten leases, whose homes have not."""
    rules = rules_of_tenants((10, None, None))
    lane = SharedBudgets(0, 1, lambda _: None, rules, leases_max=1)
    for tenant in "ab":
        share = BudgetShareRecord(budget=f"tenant:{tenant}", window=f"{NOW:%F}", lane=0, at=NOW)
        lane.receive(share, NOW)

    found = [
        lane.claim(RequestKey("w", f"r-{tenant}"), {"tenant": tenant}, (1, 1, 1), NOW)
        for tenant in "ac"
    ]

    assert found == [Reserved(), BudgetExhausted(which="attempts", budget="tenant:c")]


class Overcharging(History):
    """Calls cost twice their worst case: a limit may be exceeded by what is in flight."""

    def check(self) -> None:
        self.parts = (2.0,)


@pytest.mark.wide
def test_every_request_ends_also_where_calls_cost_more_than_their_worst_case() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(3):
        outcomes += Overcharging(seed).play().outcomes

    assert outcomes["charged"]
    assert outcomes["refused"]


def test_at_most_a_fiftieth_of_a_limit_lies_idle_and_none_of_it_is_refused() -> None:
    limit = 1_000_000
    by_day = PeriodLimits(day=(None, None, limit))
    history = History(1, rules=BudgetRules({"tenant": {"*": by_day}}))
    history.parts, history.loses_writes = (1.0,), False
    for number in range(200):
        history.ask(number % LANES, TENANT, (1, 1, 1_000))
        history.calm()
        (idle,) = history.unused().values()
        assert idle[2] <= limit // 50

    history.ask(0, TENANT, (1, 1, limit - 200 * 1_000))
    history.calm()

    assert history.outcomes == {"charged": 201}


def test_a_tenant_is_forgotten_after_its_window_also_one_that_was_refused_at_once() -> None:
    history = History(1, rules=BudgetRules({"tenant": {"*": PeriodLimits(day=(1, 10, None))}}))
    history.loses_writes = False
    for number in range(20):
        history.ask(number % LANES, {"tenant": f"t-{number}"}, (1, number, 1))
    history.calm()
    for _ in range(2):
        history.pass_time(timedelta(days=1, hours=1))
        history.calm()

    assert history.outcomes == {"charged": 11, "refused": 9}
    for lane in history.lanes.values():
        assert (lane.books.leases, lane.books.homes, lane._nearly_spent) == ({}, {}, {})
    assert [
        value for lane in history.topics.ledger.values() for value in lane.values() if value
    ] == []


class SameLimits(History):
    """No worker is started with others."""

    def _set_limits(self) -> None: ...


class ShutLanes(SameLimits):
    """Lanes are often shut for long."""

    def _pass_time(self) -> None:
        self._shut_for_long()


def play_with_shut_lanes(histories: int) -> None:
    by_month = PeriodLimits(month=(20, None, None))
    for seed in range(histories):
        ShutLanes(seed, rules=BudgetRules({"tenant": {"*": by_month}})).play().check_books()


@pytest.mark.wide
def test_no_budget_is_exceeded_where_lanes_are_often_shut_for_long() -> None:
    play_with_shut_lanes(3)

    with (
        mock.patch.object(LaneShare, "of_lease", lambda _, begun_at: LaneShare(begun_at=begun_at)),
        pytest.raises(AssertionError),
    ):
        play_with_shut_lanes(3)


def shut_history(month: Limit) -> tuple[History, int]:
    """A calm history from the first of a month, and a lane that is not the home of TENANT."""
    rules = BudgetRules({"tenant": {"*": PeriodLimits(month=month)}})
    history = History(1, rules=rules)
    history.parts, history.loses_writes = (1.0,), False
    history.now = NOW.replace(day=1)
    return history, (partition_of("tenant:acme", LANES) + 1) % LANES


def test_a_lane_that_was_shut_for_so_long_that_it_has_forgotten_its_lease_leases_again() -> None:
    history, lane = shut_history((10, None, None))
    for _ in range(3):
        history.ask(lane, TENANT, (1, 1, 1))
        history.calm()

    history.shut_for_long(lane)
    for _ in range(10):
        history.ask(lane, TENANT, (1, 1, 1))
        history.calm()

    assert history.outcomes == {"charged": 10, "refused": 3}


def test_what_a_lane_has_forgotten_counts_as_used_also_where_it_forgets_again() -> None:
    """That it was announced is kept as well, although the mark was in the share of the lane."""
    history, lane = shut_history((10, None, None))
    for calls in (4, 4):
        for _ in range(calls):
            history.ask(lane, TENANT, (1, 1, 1))
            history.calm()
        history.shut_for_long(lane)
    for _ in range(4):
        history.ask(lane, TENANT, (1, 1, 1))
        history.calm()
    history.open_again()

    assert history.outcomes == {"charged": 10, "refused": 2}
    assert len(history.topics.events) == 1


@pytest.mark.parametrize("asked_by", ["it", "another lane"])
def test_what_a_lane_has_forgotten_counts_as_used(asked_by: str) -> None:
    """It was shut with a call in flight; asked to give back what is free, it has nothing."""
    history, lane = shut_history((None, None, 100))
    history.ask(lane, TENANT, (1, 1, 60))
    history.hear_all()
    assert history.outcomes == {"charged": 1}

    history.shut_for_long(lane)
    history.ask(lane if asked_by == "it" else (lane + 1) % LANES, TENANT, (1, 1, 50))
    history.calm()
    history.ask(lane, TENANT, (1, 1, 40))
    history.calm()

    assert history.outcomes == {"charged": 2, "refused": 1}


def test_who_waits_for_a_lane_that_is_shut_is_refused_once_it_has_forgotten() -> None:
    """The home has asked it for what it does not use, and it never read that."""
    history, lane = shut_history((None, None, 100))
    history.ask(lane, TENANT, (1, 1, 60))
    history.hear_all()
    history.ask((lane + 1) % LANES, TENANT, (1, 1, 50))
    history.shut = lane
    history.hear_all()
    assert history.outcomes == {"charged": 1}

    history.shut_for_long(lane)
    history.calm()

    assert history.outcomes == {"charged": 1, "refused": 1}
    (lease,) = history.lanes[lane].books.leases.values()
    assert lease.begun_at, "its home would not notice that it forgets this one as well"


def test_who_has_asked_a_home_that_is_shut_is_answered_once_it_is_open() -> None:
    """The home never read the question."""
    history, lane = shut_history((None, None, 100))
    home = partition_of("tenant:acme", LANES)
    history.shut = home
    history.ask(lane, TENANT, (1, 1, 60))

    history.shut_for_long(home)
    history.calm()

    assert history.outcomes == {"charged": 1}


def use(history: History, calls: int) -> tuple[list[str], Counter[str]]:
    """What is logged since the last use, and what is counted now."""
    for number in range(calls):
        history.ask(number % LANES, TENANT, (1, 1, 1))
        history.calm()
    lanes = history.lanes.values()
    logged = [key.budget for lane in lanes for key in lane.take_news()]
    counted = sum((lane.nearly_spent(history.now) for lane in lanes), Counter[str]())
    return logged, counted


ACME, ONE = ["tenant:acme"], Counter({"tenant:*": 1})


def test_a_budget_of_which_four_fifths_are_used_is_announced_once_in_each_window() -> None:
    history = calm_history((10, None, None))

    assert use(history, 7) == ([], Counter())
    assert use(history, 3) == (ACME, ONE)
    history.open_again()
    assert use(history, 1) == ([], ONE)
    history.pass_time(timedelta(days=1))
    assert use(history, 0) == ([], Counter())
    assert use(history, 9) == (ACME, ONE)

    first, second = history.topics.events
    assert (first.budget, first.window, first.spent.attempts) == ("tenant:acme", "2026-11-21", 8)
    assert second.window == "2026-11-22"
    assert first.event_id == "tenant:acme@2026-11-21.nearly_spent.10-none-none"


def test_another_limit_is_announced_when_four_fifths_of_it_are_used() -> None:
    """Also at once; a limit that was announced is not, although the home was opened again."""
    history = calm_history((100, None, None))
    assert use(history, 50) == ([], Counter())

    for limit in (60, 60, 50, 200, 60, 70, 50, 64):
        history.set_rules(rules_of_tenants((limit, None, None)))
    use(history, 2)

    assert [event.limit.attempts for event in history.topics.events] == [60, 60, 50, 64]


def test_a_limit_of_nothing_is_not_announced_before_something_was_used_of_it() -> None:
    """As of money, where a tenant may use only profiles that cost none."""
    history = calm_history((10, None, 0))
    history.ask(0, TENANT, (1, 1, 0))
    history.calm()
    assert history.outcomes == {"charged": 1}
    assert history.topics.events == []

    history.set_rules(rules_of_tenants((0, None, 0)))
    history.calm()

    assert [event.limit.attempts for event in history.topics.events] == [0]


@pytest.mark.wide
def test_each_event_is_there_exactly_once_over_lost_writes_and_moved_lanes() -> None:
    def announced(seeds: int) -> int:
        found = 0
        for seed in range(seeds):
            history = SameLimits(seed, rules=rules_of_tenants((20, None, None)))
            history.parts = (1.0,)
            history.play()
            events = Counter(BudgetKey(it.budget, it.window) for it in history.topics.events)
            kept = history.spent.keys() - history.without_home
            assert {key for key in kept if history.spent[key][0] == 20} <= events.keys()
            assert all(events[key] == 1 for key in events.keys() & kept)
            found += len(events)
        return found

    assert announced(3)
    with mock.patch.object(Home, "is_announced", new=False), pytest.raises(AssertionError):
        announced(10)
