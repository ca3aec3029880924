"""Histories of lanes that share budgets: lost writes, moved lanes, lanes that are long shut, ends
of days, other limits.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.cause import BudgetExhausted
from answerbus.event import EVENT
from answerbus.nearly_spent import BudgetNearlySpent
from answerbus.partition import partition_of
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.request_key import RequestKey
from answerbus.topics import LEASES, LEDGER, STEPS
from services.worker.core.budget.account import Charged, Spend, plus
from services.worker.core.budget.ledger import Reserved
from services.worker.core.shared_budget.books import BudgetBooks
from services.worker.core.shared_budget.home import Home, LaneShare
from services.worker.core.shared_budget.rules import (
    UNITS,
    ZERO,
    BudgetKey,
    BudgetRules,
    PeriodLimits,
    limited,
    minus,
)
from services.worker.lane.state.shared_budgets import SharedBudgets
from tests.unit.worker.builders import NOW

LANES = 4
STEPS_PLAYED = 400
CENT = 10_000  # micro-dollars
CENTS = 200
CALM_ROUNDS_MAX = 200
HEARD_MAX = 20_000
LABELS = {"tenant": ("acme", "acme-labs", "umbrella"), "team": ("red", "blue"), "user": ("eve",)}
NO_LIMIT = 10**18
REMEMBERED = timedelta(days=7)  # records of the ledger, and of leases
SHUT_DAYS = 9


def rules_of(cents: int) -> BudgetRules:
    """Several budgets at once: of a tenant by day and month, of its team, and of a user."""
    money = cents * CENT
    tenant = PeriodLimits(day=(None, None, money), month=(cents, None, 2 * money))
    unlabelled = PeriodLimits(day=(None, 5_000, None))
    team = PeriodLimits(day=(None, None, money * 3 // 2))
    user = PeriodLimits(month=(cents // 2, 20_000, None))
    return BudgetRules(
        {
            "user": {"*": user},
            "tenant": {"*": tenant, "umbrella": team, "": unlabelled},
            "team": {"*": team},
        }
    )


@dataclass(eq=False)
class Call:
    """A request, and once it is charged its spend."""

    key: RequestKey
    lane: int
    labels: dict[str, str]
    need: Charged
    spend: Spend | None = None


@dataclass
class Topics:
    """What is committed: the last record of each key of the ledger, and all that lanes said."""

    ledger: dict[int, dict[bytes, bytes | None]] = field(default_factory=lambda: defaultdict(dict))
    leases: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    positions: Counter[int] = field(default_factory=Counter)
    events: list[BudgetNearlySpent] = field(default_factory=list)

    def books(self, lane: int) -> BudgetBooks:
        """As a lane reads them when it opens."""
        books = BudgetBooks()
        for key, value in self.ledger[lane].items():
            if value is None:
                books.end(key.decode())
            else:
                books.restore(record_of(value))
        return books

    def forget(self, lane: int, before: datetime) -> None:
        """Delete what is older of a lane's ledger, and of what it has not heard."""
        self.ledger[lane] = {
            key: value
            for key, value in self.ledger[lane].items()
            if value is not None and record_of(value).at >= before
        }
        said = self.leases[lane]
        while (
            self.positions[lane] < len(said) and record_of(said[self.positions[lane]]).at < before
        ):
            self.positions[lane] += 1


def record_of(value: bytes) -> BudgetLeaseRecord | BudgetShareRecord:
    record = EVENT.validate_json(value)
    assert isinstance(record, BudgetLeaseRecord | BudgetShareRecord)
    return record


class History:
    """One seed; `spent` is counted here alone, from what was committed."""

    def __init__(
        self,
        seed: int,
        restored: Callable[[BudgetBooks], None] = lambda _: None,
        rules: BudgetRules | None = None,
    ) -> None:
        self.chance, self.now, self.rules = random.Random(seed), NOW, rules or rules_of(CENTS)
        self.restored = restored  # a fault to plant in what an opening found
        self.parts: Sequence[float] = (0.0, 0.1, 1.0)  # of its worst case, that a call costs
        self.topics = Topics()
        self.spent: dict[BudgetKey, Charged] = defaultdict(lambda: ZERO)
        self.most: dict[BudgetKey, list[int]] = {}
        self.shut: int | None = None  # a lane that no worker has
        self.without_home: set[BudgetKey] = set()  # whose home has forgotten what it gave
        self.waiting: dict[int, dict[RequestKey, Call]] = defaultdict(dict)
        self.resumed: dict[int, list[RequestKey]] = defaultdict(list)
        self.open: list[Call] = []
        self.outcomes: Counter[str] = Counter()
        self.lanes = {number: self._opened(number) for number in range(LANES)}
        self.number, self.loses_writes = 0, True

    def play(self) -> "History":
        """All steps from some day of a month, then calm: every call ends, and all is heard."""
        self.now = NOW.replace(day=self.chance.randrange(1, 29))
        for _ in range(STEPS_PLAYED):
            step = self.chance.choices(
                (
                    self._ask,
                    self._end,
                    self._hear,
                    self._crash,
                    self._pass_time,
                    self._set_limits,
                    self._shut_for_long,
                ),
                (10, 9, 20, 1, 0.3, 0.1, 0.1),
            )[0]
            step()
            self.check()
        self.calm()
        return self

    def calm(self) -> None:
        """Each request ends within so many rounds, once the faults are over."""
        self.loses_writes = False
        for _ in range(CALM_ROUNDS_MAX):
            if not self.open and not self._unheard() and not any(self.waiting.values()):
                return
            self.hear_all()
            for _ in range(len(self.open)):
                self._end()
                self.check()
        waiting = [call.labels for calls in self.waiting.values() for call in calls.values()]
        raise AssertionError(f"{len(waiting)} requests wait for ever, such as {waiting[:3]}")

    def hear_all(self) -> None:
        """Until no lane has anything to say any more, which is soon."""
        for _ in range(HEARD_MAX):
            if not self._unheard():
                return
            self._hear()
            self.check()
        raise AssertionError("lanes speak with each other for ever")

    def check(self) -> None:
        """Never one micro-dollar above what the limit is, or was when it was spent."""
        for key, spent in self.spent.items():
            if key in self.without_home:
                continue
            for unit, amount, most in zip(UNITS, spent, self.most[key], strict=True):
                assert amount <= most, (key, unit, amount, most)

    def check_books(self) -> None:
        """What the ledgers of all lanes say together: the home knows of all that a lane has."""
        books = [self.topics.books(lane) for lane in range(LANES)]
        homes = {key: home for one in books for key, home in one.homes.items()}
        for lane, one in enumerate(books):
            for key, lease in one.leases.items():
                if key.is_over(self.now) or key in self.without_home:
                    continue
                home = homes.get(key, Home())
                limit, share = self.rules.limit(key), home.shares.get(lane, LaneShare())
                assert share.begun_at == lease.begun_at or not lease.asked
                assert share.granted >= lease.granted
                assert share.returned <= lease.returned
                free = limited(limit, lease.free)
                assert min(free) >= 0, (key, lane, free)

    def unused(self) -> dict[BudgetKey, Charged]:
        """What lies idle in leases."""
        found: dict[BudgetKey, Charged] = defaultdict(lambda: ZERO)
        for lane in self.lanes.values():
            for key, lease in lane.books.leases.items():
                found[key] = plus(found[key], limited(self.rules.limit(key), lease.free))
        return found

    def ask(self, lane: int, labels: dict[str, str], need: Charged) -> None:
        """A request comes to a lane."""
        self.number += 1
        self._try(Call(RequestKey("w", f"r-{self.number}"), lane, labels, need))

    def _ask(self) -> None:
        labels = {
            label: self.chance.choice(values)
            for label, values in LABELS.items()
            if self.chance.random() < 0.6
        }
        need = (1, self.chance.randrange(1, 500), self.chance.randrange(1, 20 * CENT))
        self.ask(self.chance.choice(self._open_lanes()), labels, need)

    def _try(self, call: Call) -> None:
        """As a lane does: it claims, then charges, and commits both."""
        state, lane = self.lanes[call.lane], call.lane
        self.waiting[lane].pop(call.key, None)
        found = state.claim(call.key, call.labels, call.need, self.now)
        match found:
            case Reserved():
                self.waiting[lane][call.key] = call
                self._commit(lane)
            case BudgetExhausted():
                self.outcomes["refused"] += 1
                self._commit(lane)
            case None:
                request = call.key.request_id
                spend = Spend("a", request, 1, call.need[1], call.need[2], self.now)
                state.spend(call.key, spend)
                self.waiting[lane][call.key] = call  # if it is lost, it comes again
                if self._commit(lane):
                    del self.waiting[lane][call.key]
                    call.spend = spend
                    self.open.append(call)
                    self._count(call, spend.worst)
                    self.outcomes["charged"] += 1

    def _end(self) -> None:
        if not self.open:
            return
        call = self.open.pop(self.chance.randrange(len(self.open)))
        spend = call.spend
        assert spend is not None
        part = self.chance.choice(self.parts)
        charged = (1, int(spend.tokens * part), int(spend.micro_usd * part)) if part else ZERO
        self.lanes[call.lane].settle(call.labels, spend, charged, self.now)
        if self._commit(call.lane):
            self._count(call, minus(charged, spend.worst))

    def _hear(self) -> None:
        behind = [n for n in self._open_lanes() if self._unheard_by(n)]
        if not behind:
            return
        lane = self.chance.choice(behind)
        value = self.topics.leases[lane][self.topics.positions[lane]]
        self.lanes[lane].receive(record_of(value), self.now)
        self._commit(lane, position=self.topics.positions[lane] + 1)

    def _crash(self) -> None:
        self.reopen(self.chance.randrange(LANES))

    def reopen(self, lane: int) -> None:
        """Its calls are charged in full; its requests come again."""
        self.open = [call for call in self.open if call.lane != lane]
        self.lanes[lane] = self._opened(lane)
        self.lanes[lane].opened(self.now)
        before, self.loses_writes = self.loses_writes, False
        self._commit(lane)
        for call in tuple(self.waiting[lane].values()):
            if call.key in self.waiting[lane]:
                self._try(call)
        self.loses_writes = before

    def _pass_time(self) -> None:
        self.pass_time(timedelta(hours=self.chance.choice((1, 12, 24 * 5))))

    def pass_time(self, passed: timedelta) -> None:
        """Each lane looks at what is old now."""
        self.now += passed
        for number in self._open_lanes():
            self.lanes[number].renew(self.now)
            self._commit(number)

    def _shut_for_long(self) -> None:
        self.shut_for_long(self.chance.randrange(LANES), steps_a_day=20)

    def shut_for_long(self, lane: int, steps_a_day: int = 0) -> None:
        """Until its ledger has forgotten all; the others go on. What it was the home of is new."""
        self.shut = lane
        self.open = [call for call in self.open if call.lane != lane]
        for _ in range(SHUT_DAYS):
            self.pass_time(timedelta(days=1))
            for _ in range(steps_a_day):
                self.chance.choice((self._ask, self._end, self._hear))()
                self.check()
        self.topics.forget(lane, self.now - REMEMBERED)
        known = {key for state in self.lanes.values() for key in state.books.leases}
        self.without_home |= {key for key in known if partition_of(key.budget, LANES) == lane}
        self.shut = None
        self.reopen(lane)

    def _open_lanes(self) -> list[int]:
        return [number for number in range(LANES) if number != self.shut]

    def _set_limits(self) -> None:
        self.set_rules(rules_of(self.chance.choice((20, 100, CENTS, 300))))

    def set_rules(self, rules: BudgetRules) -> None:
        """All workers are started again, with lower limits or higher ones."""
        self.rules = rules
        for key, most in self.most.items():
            limit = self.rules.limit(key)
            for at, (amount, spent) in enumerate(zip(limit, self.spent[key], strict=True)):
                most[at] = NO_LIMIT if amount is None else max(amount, spent)
        self.open_again()

    def open_again(self) -> None:
        """All lanes move."""
        for number in range(LANES):
            self.reopen(number)

    def _commit(self, lane: int, *, position: int | None = None) -> bool:
        """One transaction; one of thirty is lost, and the lane opens again."""
        written = self.lanes[lane].take_unsent()
        if self.loses_writes and self.chance.random() < 1 / 30:
            self.reopen(lane)
            return False
        for record in written:
            if record.topic is LEDGER:
                self.topics.ledger[lane][record.key or b""] = record.value
            elif record.topic is STEPS:
                event = EVENT.validate_json(record.value or b"")
                assert isinstance(event, BudgetNearlySpent)
                self.topics.events.append(event)
            else:
                assert record.topic is LEASES
                self.topics.leases[record.partition or 0].append(record.value or b"")
        if position is not None:
            self.topics.positions[lane] = position
        for key in self._take_resumed(lane):
            if call := self.waiting[lane].get(key):
                self._try(call)
        return True

    def _opened(self, lane: int) -> SharedBudgets:
        books = self.topics.books(lane)
        self.restored(books)
        self.resumed[lane].clear()

        def resume(request: RequestKey) -> None:
            if request in self.waiting[lane]:
                self.resumed[lane].append(request)

        return SharedBudgets(lane, LANES, resume, self.rules, books)

    def _take_resumed(self, lane: int) -> tuple[RequestKey, ...]:
        taken = tuple(self.resumed[lane])
        self.resumed[lane].clear()
        return taken

    def _count(self, call: Call, amount: Charged) -> None:
        assert call.spend is not None
        for key in self.rules.keys_of(call.labels, call.spend.at):
            limit = self.rules.limit(key)
            self.most.setdefault(key, [NO_LIMIT if most is None else most for most in limit])
            self.spent[key] = plus(self.spent[key], amount)

    def _unheard_by(self, lane: int) -> int:
        return len(self.topics.leases[lane]) - self.topics.positions[lane]

    def _unheard(self) -> int:
        return sum(self._unheard_by(lane) for lane in self._open_lanes())
