"""The leases and homes of one lane, as its records in the ledger say; pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from sys import intern

from answerbus.nearly_spent import BudgetLimit, BudgetNearlySpent
from answerbus.private.budgets import (
    LEASE_KEY,
    SHARE_KEY,
    BudgetLeaseRecord,
    BudgetShareRecord,
)
from answerbus.wire import to_utc_milliseconds
from services.worker.core.budget.account import spent_of
from services.worker.core.shared_budget.ages import Ages
from services.worker.core.shared_budget.home import Home, LaneShare
from services.worker.core.shared_budget.lease import Lease
from services.worker.core.shared_budget.rules import ZERO, BudgetKey, Limit, charged_of

RENEWED_AFTER = timedelta(days=1)  # the ledger keeps no record for longer than 7 days
RENEWED_AT_ONCE = 500  # records, about 20 µs each

RecordKey = tuple[BudgetKey, int | None]  # of a share that lane's number, of a lease None
BudgetRecord = BudgetLeaseRecord | BudgetShareRecord


@dataclass(slots=True)
class BudgetBooks:
    """See the module; each change is followed by the record that says it."""

    leases: dict[BudgetKey, Lease] = field(default_factory=dict)
    homes: dict[BudgetKey, Home] = field(default_factory=dict)
    _ages: Ages[RecordKey] = field(default_factory=Ages)

    def restore(self, record: BudgetRecord) -> None:
        """Take one record of the ledger; later ones of a key win."""
        key = key_of(record)
        match record:
            case BudgetLeaseRecord():
                self.leases[key] = _lease(record)
                self._ages.note((key, None), record.at)
            case BudgetShareRecord():
                self.homes.setdefault(key, Home()).restore(record.lane, _share(record))
                self._ages.note((key, record.lane), record.at)

    def end(self, name: str) -> None:
        """Forget what a key of the ledger said."""
        if found := _key_in(name):
            self._forget(found)

    def knows(self, key: BudgetKey, said: BudgetRecord) -> bool:
        """Whether what another lane says of a budget meets a home, or a lease."""
        return key in (self.homes if isinstance(said, BudgetLeaseRecord) else self.leases)

    def begin(self, key: BudgetKey, now: datetime) -> None:
        """A lease is there from the first claim on, and is forgotten with its window."""
        if key not in self.leases:
            self.leases[key] = Lease(begun_at=to_utc_milliseconds(now))
            self._ages.note((key, None), now)

    def beyond(self, keys: Iterable[BudgetKey], leases_max: int) -> BudgetKey | None:
        """One of these keys for which there is no room; those that have a lease need none."""
        begun = [key for key in keys if key not in self.leases]
        return begun[-1] if begun and len(self.leases) + len(begun) > leases_max else None

    def has_room(self, key: BudgetKey, lane: int, shares_max: int) -> bool:
        """Whether a home can keep a share of this lane; one that it has needs no more room."""
        home = self.homes.get(key)
        is_known = home is not None and lane in home.shares
        return is_known or len(self._ages) - len(self.leases) < shares_max

    def lease(self, key: BudgetKey) -> Lease:
        return self.leases.setdefault(key, Lease())

    def home(self, key: BudgetKey) -> Home:
        return self.homes.setdefault(key, Home())

    def lease_record(self, key: BudgetKey, lane: int, now: datetime) -> BudgetLeaseRecord:
        """The lease as it is now."""
        lease = self.leases[key]
        self._ages.note((key, None), now)
        return BudgetLeaseRecord(
            budget=key.budget,
            window=key.window,
            lane=lane,
            granted=spent_of(lease.granted),
            returned=spent_of(lease.returned),
            used=spent_of(lease.used),
            settled=spent_of(lease.settled),
            asked=lease.asked,
            wanted=spent_of(lease.wanted),
            more=spent_of(lease.more),
            is_tight=lease.is_tight,
            begun_at=lease.begun_at,
            at=now,
        )

    def share_record(self, key: BudgetKey, lane: int, now: datetime) -> BudgetShareRecord:
        """The share of a lane as it is now."""
        share = self.homes[key].shares[lane]
        self._ages.note((key, lane), now)
        return BudgetShareRecord(
            budget=key.budget,
            window=key.window,
            lane=lane,
            granted=spent_of(share.granted),
            returned=spent_of(share.returned),
            settled=spent_of(share.settled),
            asked=share.asked,
            answered=share.answered,
            wanted=spent_of(share.wanted),
            more=spent_of(share.more),
            room=share.room and spent_of(share.room),
            is_tight=share.is_tight,
            begun_at=share.begun_at,
            forgotten=spent_of(share.forgotten),
            is_announced=share.is_announced,
            at=now,
        )

    def nearly_spent(self, key: BudgetKey, limit: Limit, now: datetime) -> BudgetNearlySpent:
        """The event about a budget whose home is here."""
        calls, tokens, micro_usd = limit
        return BudgetNearlySpent(
            budget=key.budget,
            window=key.window,
            limit=BudgetLimit(attempts=calls, tokens=tokens, micro_usd=micro_usd),
            spent=spent_of(self.homes[key].settled),
            at=now,
        )

    def renewed(self, now: datetime) -> Iterator[RecordKey]:
        """Records that are to be written again before the ledger forgets them, since they are old.

        Those of windows that are over are not among them: see `forget`.
        """
        for record_key in self._ages.take_old(now - RENEWED_AFTER, RENEWED_AT_ONCE):
            self._ages.note(record_key, now)
            yield record_key

    def is_over(self, record_key: RecordKey, now: datetime) -> bool:
        """Whether nothing can change it any more."""
        key, of_lane = record_key
        if not key.is_over(now):
            return False
        return of_lane is not None or self.leases[key].is_idle

    def forget(self, record_key: RecordKey) -> str:
        """Gives the key of the ledger that is to end."""
        self._forget(record_key)
        return _name_of(record_key)

    def _forget(self, record_key: RecordKey) -> None:
        key, of_lane = record_key
        self._ages.forget(record_key)
        if of_lane is None:
            self.leases.pop(key, None)
        elif home := self.homes.get(key):
            home.end(of_lane)
            if not home.shares:
                del self.homes[key]


def refusal_of(record: BudgetLeaseRecord, now: datetime) -> BudgetShareRecord:
    """The answer to a lane of whose lease its home keeps nothing: there is nothing to have."""
    return BudgetShareRecord(
        budget=record.budget,
        window=record.window,
        lane=record.lane,
        answered=record.asked,
        room=spent_of(ZERO),
        begun_at=record.begun_at,
        at=now,
    )


def key_of(record: BudgetRecord) -> BudgetKey:
    """Of the same day or month there may be a million."""
    return BudgetKey(record.budget, intern(record.window))


def _lease(record: BudgetLeaseRecord) -> Lease:
    """Without calls in flight, which the opening lane adds; what was asked is asked again."""
    return Lease(
        granted=charged_of(record.granted),
        returned=charged_of(record.returned),
        used=charged_of(record.used),
        asked=record.asked,
        answered=record.asked,
        is_tight=record.is_tight,
        begun_at=record.begun_at,
    )


def _share(record: BudgetShareRecord) -> LaneShare:
    return LaneShare(
        granted=charged_of(record.granted),
        returned=charged_of(record.returned),
        settled=charged_of(record.settled),
        asked=record.asked,
        answered=record.answered,
        wanted=charged_of(record.wanted),
        more=charged_of(record.more),
        is_tight=record.is_tight,
        begun_at=record.begun_at,
        forgotten=charged_of(record.forgotten),
        is_announced=record.is_announced,
    )


def _name_of(record_key: RecordKey) -> str:
    (budget, window), lane = record_key
    kind = LEASE_KEY if lane is None else f"{SHARE_KEY}{lane}:"
    return f"{kind}{budget}@{window}"


def _key_in(name: str) -> RecordKey | None:
    kind, _, rest = name.partition(":")
    if kind not in {LEASE_KEY[:-1], SHARE_KEY[:-1]}:
        return None
    lane = None
    if kind == SHARE_KEY[:-1]:
        number, _, rest = rest.partition(":")
        if not number.isdecimal():
            return None
        lane = int(number)
    budget, _, window = rest.rpartition("@")
    return BudgetKey(budget, window), lane
