"""The shared budgets of a lane: what it may spend of them, and those whose home it is."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.cause import BudgetExhausted
from answerbus.partition import partition_of
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.request_key import RequestKey
from answerbus.topics import LEASES, LEDGER
from services.worker.core.budget.account import Charged, Spend, plus
from services.worker.core.budget.ledger import Reserved
from services.worker.core.budget.remaining_budget import BudgetUnit
from services.worker.core.shared_budget.books import (
    BudgetBooks,
    BudgetRecord,
    RecordKey,
    key_of,
    refusal_of,
)
from services.worker.core.shared_budget.claims import BudgetClaims, Claim
from services.worker.core.shared_budget.lease import Lease, portion_of
from services.worker.core.shared_budget.rules import (
    ZERO,
    BudgetKey,
    BudgetRules,
    charged_of,
    is_nearly_spent,
)
from services.worker.lane.state import records
from services.worker.ports.kafka import OutRecord

# The most leases that a lane keeps, and the most shares of other lanes' leases, about 1 KB each:
# requests may have any values of labels.
LEASES_MAX = 1_000_000

Labels = Mapping[str, str]


@dataclass(slots=True)
class SharedBudgets:
    """A call is charged to each budget that its labels name, in the transaction of its spend.

    What changes is written with the next write of the lane, be it to the home of a budget or to
    another lane. A request that waited is to `resume` once its claim is answered.
    """

    partition: int
    partitions: int
    resume: Callable[[RequestKey], None]
    rules: BudgetRules = field(default_factory=BudgetRules)
    books: BudgetBooks = field(default_factory=BudgetBooks)
    claims: BudgetClaims = field(default_factory=BudgetClaims)
    leases_max: int = LEASES_MAX
    is_on: bool = True  # there are topics for what other lanes and people read of it
    _served_next: dict[BudgetKey, bool] = field(default_factory=dict)  # True: by its home's answer
    _unsent: dict[RecordKey, bool] = field(default_factory=dict)  # True: another lane reads it, too
    _beside: list[OutRecord] = field(default_factory=list)  # ends of records, and events
    _now: datetime | None = None
    _nearly_spent: dict[BudgetKey, None] = field(default_factory=dict)  # whose home is this lane
    _news: list[BudgetKey] = field(default_factory=list)  # of these, those not yet logged

    def claim(
        self, request: RequestKey, labels: Labels, need: Charged, now: datetime
    ) -> BudgetExhausted | Reserved | None:
        """Whether a call may be charged to all its budgets now."""
        keys = self.rules.keys_of(labels, now)
        claim = self.claims.get(request)
        if claim and (claim.keys, claim.need) != (keys, need):
            self.release(request, now)
            claim = None
        if not keys:
            return None
        if claim is None:
            if over := self.books.beyond(keys, self.leases_max):
                return BudgetExhausted(which="attempts", budget=over.budget)
            for key in keys:
                self.books.begin(key, now)
            claim = Claim(request, need, keys)
            self.claims.put(claim)
            self._serve(now, keys[0])
        if claim.refused:
            self.claims.end(claim)
            return claim.refused
        return Reserved() if claim.awaited else None

    def beyond(self, labels: Labels, need: Charged, now: datetime) -> BudgetUnit | None:
        """The unit in which a call exceeds a limit, or all that its home will have left."""
        for key in self.rules.keys_of(labels, now):
            lease = self.books.leases.get(key, Lease())
            if which := lease.beyond(need, self.rules.limit(key)):
                return which
        return None

    def release(self, request: RequestKey, now: datetime) -> None:
        """A request spends nothing, at least not now: others may have what it claimed."""
        if claim := self.claims.get(request):
            held = claim.held
            self.claims.end(claim)
            self._let_go(claim, held)
            self._serve(now, *claim.keys)

    def spend(self, request: RequestKey, spend: Spend) -> None:
        """Charge a call that holds all that it claimed."""
        if claim := self.claims.get(request):
            self.claims.end(claim)
            self._let_go(claim, claim.keys)
            for key in claim.keys:
                self.books.lease(key).spend(spend.worst)
                self._note(key, spend.at)

    def adopt(self, labels: Labels, spend: Spend) -> None:
        """A call that was charged before the lane was opened again goes on."""
        for key in self.rules.keys_of(labels, spend.at):
            lease = self.books.lease(key)
            lease.in_flight = plus(lease.in_flight, spend.worst)

    def settle(self, labels: Labels, spend: Spend, charged: Charged, now: datetime) -> None:
        """Replace the worst case of a call, in the windows that it was charged to."""
        keys, worst = self.rules.keys_of(labels, spend.at), spend.worst
        for key in keys:
            is_above = any(amount > most for amount, most in zip(charged, worst, strict=True))
            lease = self.books.lease(key)
            lease.settle(worst, charged)
            has_news = lease.has_news(self._portion(key), self.rules.limit(key))
            self._note(key, now, send=lease.is_tight or is_above or has_news)
        self._serve(now, *keys)

    def receive(self, received: BudgetRecord, now: datetime) -> None:
        """Apply a record of another lane."""
        key = key_of(received)
        if key.is_over(now) and not self.books.knows(key, received):
            return  # what is forgotten must not begin at zero
        match received:
            case BudgetLeaseRecord():
                if self._home_of(key) == self.partition and received.lane < self.partitions:
                    self._take_report(key, received, now)
            case BudgetShareRecord():
                if received.lane == self.partition:
                    self._take_share(key, received, now)

    def _take_report(self, key: BudgetKey, received: BudgetLeaseRecord, now: datetime) -> None:
        if not self.books.has_room(key, received.lane, self.leases_max):
            self._now = now
            refusal = records.event_record(refusal_of(received, now), self.partition)
            self._beside.append(refusal._replace(topic=LEASES, partition=received.lane))
            return
        self.books.home(key).report(received.lane, received)
        self._note(key, now, received.lane)
        self._announce(key, now, received.lane)
        self._answer(key, now)

    def _take_share(self, key: BudgetKey, received: BudgetShareRecord, now: datetime) -> None:
        """One of a lease that this lane has forgotten is not its own: its home must know that."""
        self.books.begin(key, now)
        lease = self.books.lease(key)
        if received.begun_at != lease.begun_at:
            self._note(key, now, send=True)
            return
        room = None if received.room is None else charged_of(received.room)
        is_recalled = lease.take(
            charged_of(received.granted), room, received.answered, tight=received.is_tight
        )
        self._note(key, now, send=is_recalled)
        self._served_next[key] = True
        self._serve(now)

    def opened(self, now: datetime) -> None:
        """Begin where a predecessor ended: what is wanted elsewhere is given back, or given.

        A home that waits for what its calls do not use must learn that these have ended, and one
        whose limit is new what was used without it.
        """
        urgent = [
            key
            for key, it in self.books.leases.items()
            if (it.is_tight or it.is_exceeded(self.rules.limit(key))) and not key.is_over(now)
        ]
        for key in urgent:
            self._note(key, now, send=True)
        self._serve(now, *urgent)
        for key, home in self.books.homes.items():
            if key.is_over(now):
                continue
            home.close(self.partitions)
            self._look_again(key, now)
            if home.is_awaited:
                self._answer(key, now)

    def renew(self, now: datetime) -> None:
        """Write records again before the ledger forgets them, and end those that are over."""
        self._now = now
        for record_key in self.books.renewed(now):
            if self.books.is_over(record_key, now):
                self._unsent.pop(record_key, None)
                name = self.books.forget(record_key)
                self._nearly_spent.pop(record_key[0], None)
                self._beside.append(records.ledger_tombstone(name, self.partition))
            else:
                key, lane = record_key
                self._note(key, now, lane, send=self._is_awaited(record_key))
        self.claims.wake_over(now)
        self._resume()

    def nearly_spent(self, now: datetime) -> Counter[str]:
        """How many budgets whose home is this lane are used by four fifths, by their rule."""
        return Counter(self.rules.name_of(it) for it in self._nearly_spent if not it.is_over(now))

    def take_news(self) -> tuple[BudgetKey, ...]:
        """Budgets that were announced as nearly spent since this was asked last."""
        taken = tuple(self._news)
        self._news.clear()
        return taken

    @property
    def has_unsent(self) -> bool:
        """Whether something is to be written."""
        return bool(self._unsent or self._beside)

    def take_unsent(self) -> tuple[OutRecord, ...]:
        """Records to go with the lane's next write; the last state of each is enough."""
        if self._now is None or not self.has_unsent:
            return ()
        taken = [record for record in self._beside if self.is_on or record.topic is LEDGER]
        for (key, lane), is_sent in self._unsent.items():
            if lane is None:
                state: BudgetRecord = self.books.lease_record(key, self.partition, self._now)
                reader = self._home_of(key)
                if is_sent:
                    lease = self.books.lease(key)
                    lease.reported = lease.settled
            else:
                state = self.books.share_record(key, lane, self._now)
                reader = lane
            record = records.event_record(state, self.partition)
            taken.append(record)
            if is_sent and self.is_on:
                taken.append(record._replace(topic=LEASES, partition=reader))
        self._unsent.clear()
        self._beside.clear()
        return tuple(taken)

    def _serve(self, now: datetime, *keys: BudgetKey) -> None:
        """Let claims have what is free, each in its turn, until nothing changes any more."""
        for key in keys:
            self._served_next.setdefault(key, False)
        while self._served_next:
            key, is_answer = self._served_next.popitem()
            self._give_to_claims(key, now, is_answer=is_answer)
            self._ask_or_give_back(key, now)
        self._resume()

    def _resume(self) -> None:
        for request in self.claims.take_changed():
            self.resume(request)

    def _give_to_claims(self, key: BudgetKey, now: datetime, *, is_answer: bool) -> None:
        lease, limit = self.books.lease(key), self.rules.limit(key)
        may_give = is_answer or not lease.is_tight  # else the home says whose turn it is
        while claim := self.claims.first(key):
            if which := lease.beyond(claim.need, limit):
                self._let_go(claim, claim.held)
                self.claims.refuse(claim, BudgetExhausted(which=which, budget=key.budget))
            elif may_give and lease.has(claim.need, limit):
                lease.hold(claim.need)
                self.claims.hold(claim, now)
                if claim.awaited:
                    self._served_next.setdefault(claim.awaited, False)
            else:
                return

    def _ask_or_give_back(self, key: BudgetKey, now: datetime) -> None:
        lease, limit = self.books.lease(key), self.rules.limit(key)
        claim = self.claims.first(key)
        if claim and not lease.is_waiting:
            lease.ask(claim.need, self.claims.behind_first(key), limit)
            self._note(key, now, send=True)
        elif lease.is_tight:
            if lease.give_back(ZERO, limit):
                self._note(key, now, send=True)
        elif not claim:
            portion = self._portion(key)
            if not lease.is_within(plus(portion, portion), limit):
                lease.give_back(portion, limit)
                self._note(key, now, send=True)

    def _let_go(self, claim: Claim, held: tuple[BudgetKey, ...]) -> None:
        for key in held:
            self.books.lease(key).let_go(claim.need)
            self._served_next.setdefault(key, False)

    def _answer(self, key: BudgetKey, now: datetime) -> None:
        limit = self.rules.limit(key)
        for lane in self.books.home(key).answers(limit, self._portion(key)):
            self._note(key, now, lane, send=True)

    def _portion(self, key: BudgetKey) -> Charged:
        return portion_of(self.rules.limit(key), self.partitions)

    def _look_again(self, key: BudgetKey, now: datetime) -> None:
        """The limit may be another one than that which an event was about."""
        home = self.books.homes[key]
        if not self._is_nearly_spent(key):
            for lane, share in home.shares.items():
                if share.is_announced:
                    share.is_announced = False
                    self._note(key, now, lane)
        elif home.is_announced:
            self._nearly_spent[key] = None
        else:
            self._announce(key, now, next(iter(home.shares)))

    def _announce(self, key: BudgetKey, now: datetime, lane: int) -> None:
        """Publish once that a budget is nearly spent; the share of the lane keeps that."""
        if key in self._nearly_spent or key.is_over(now) or not self._is_nearly_spent(key):
            return
        self._nearly_spent[key] = None
        self._news.append(key)
        self.books.homes[key].shares[lane].is_announced = True
        self._note(key, now, lane)
        event = self.books.nearly_spent(key, self.rules.limit(key), now)
        self._beside.append(records.event_record(event, self.partition))

    def _is_nearly_spent(self, key: BudgetKey) -> bool:
        return is_nearly_spent(self.rules.limit(key), self.books.homes[key].settled)

    def _note(
        self, key: BudgetKey, now: datetime, lane: int | None = None, *, send: bool = False
    ) -> None:
        """The lease on a budget has changed, or the share of a `lane`: its record is written."""
        self._now = now
        self._unsent[key, lane] = self._unsent.get((key, lane), False) or send

    def _is_awaited(self, record_key: RecordKey) -> bool:
        """Whether another lane is to act on it; one that was shut for long has not read it."""
        key, lane = record_key
        if lane is None:
            return self.books.lease(key).is_waiting
        return self.books.homes[key].shares[lane].is_tight

    def _home_of(self, key: BudgetKey) -> int:
        return partition_of(key.budget, self.partitions)
