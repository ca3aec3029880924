"""Accounts, their spending, and closed requests: the state of one lane, without I/O."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from answerbus.budget import Budget, Usage
from answerbus.dead_letter import BudgetExhausted
from answerbus.limits import ATTEMPTS_MAX
from answerbus.outcome import Origin
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.ledger import (
    CLOSED_KEY,
    AccountRecord,
    ClosedIdsRecord,
    ClosedOutcome,
    ClosedRecord,
    LaneRecord,
    LedgerRecord,
    Skipped,
)
from answerbus.request import Request
from answerbus.request_key import SEPARATOR, RequestKey
from services.worker.core.budget.account import (
    Account,
    AppendPosition,
    Charged,
    Spend,
    plus,
    restored,
    shared,
)
from services.worker.core.budget.accounts import Accounts
from services.worker.core.budget.allowance import UNBOUND, Allowance
from services.worker.core.budget.closed import ClosedId, ClosedIds
from services.worker.core.budget.remaining_budget import BudgetUnit, exceeded

OPEN_MAX = 2_000  # requests of one account under way, so that its record fits the topic
ENDED_MAX = 1_000  # accounts whose records one transaction ends


def take_in(account: Account, request: Request, place: Origin, *, opens: bool) -> str | None:
    """Let a request that was admitted at `place` settle the limit, or add to it.

    `opens`: the account was made for it. Gives a note where the budget that it names is not used.
    """
    at = append_position(place)
    is_child = request.parent is not None  # with a part of the budget of its run
    if request.names_budget and not is_child:
        return _named(account, request, opens=opens)
    last = account.shared_by
    if opens:
        account.shared_by = at
    elif isinstance(last, tuple) and is_later(at, last) and not is_child:
        account.shared_by = at[0], max(at[1], last[1])
        if not request.prior:  # a follow-up goes on with what is left
            account.limit = sum_of(account.limit, request.budget)
    return None


def _named(account: Account, request: Request, *, opens: bool) -> str | None:
    settled_by = account.shared_by
    if opens or isinstance(settled_by, tuple):
        if not opens:
            account.limit = _at_least(request.budget, account.reserved)
        account.shared_by = request.request_id
        return None
    if settled_by == request.request_id or account.limit == request.budget:
        return None
    by = f"request {settled_by}" if settled_by else "an earlier request"
    return (
        f"its budget is not used: {by} has settled that of the workflow, "
        f"{account.limit.attempts:,} attempts in all; a replay has a budget of its own"
    )


def append_position(origin: Origin) -> AppendPosition:
    """Where a record is, and since when, in milliseconds."""
    return origin.offset, int(origin.timestamp.timestamp() * 1000)


def is_later(place: AppendPosition, other: AppendPosition) -> bool:
    """Whether a record came after another; in a topic that was created again, offsets restart."""
    return place[0] > other[0] or place[1] > other[1]


def sum_of(limit: Budget, own: Budget) -> Budget:
    """Both together; tokens or money without a limit stay so, and `None` adds none to them."""
    return Budget(
        attempts=min(limit.attempts + own.attempts, ATTEMPTS_MAX),
        tokens=_sum(limit.tokens, own.tokens),
        micro_usd=_sum(limit.micro_usd, own.micro_usd),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if one is None or other is None else one + other


def _at_least(budget: Budget, used: Charged) -> Budget:
    """A limit that is settled late is not below what was charged before."""
    attempts, tokens, micro_usd = used
    return Budget(
        attempts=max(budget.attempts, attempts),
        tokens=None if budget.tokens is None else max(budget.tokens, tokens),
        micro_usd=None if budget.micro_usd is None else max(budget.micro_usd, micro_usd),
    )


@dataclass(frozen=True, slots=True)
class Reserved:
    """Nothing is left only because calls in flight are charged at their worst case: ask later."""


@dataclass(slots=True)
class Ledger:
    """The accounts and closed ids of one partition, as its lane knows them."""

    closed: ClosedIds = field(default_factory=ClosedIds)
    accounts: Accounts = field(default_factory=Accounts)
    lane: LaneRecord | None = None
    _changed: dict[str, Account] = field(default_factory=dict, compare=False)  # to be written
    _forgotten: deque[str] = field(default_factory=deque)  # accounts whose records stand

    def restore(
        self,
        record: LedgerRecord,
        appended_at: datetime | None = None,
        key: bytes | None = None,
    ) -> None:
        """Take one record of the ledger topic; later ones of a key win.

        Ages count from `appended_at`, by the broker's clock: the worker that wrote it may have had
        a wrong one. `key` is that of the record: versions before had others for closed ids.
        """
        match record:
            case AccountRecord():
                account = restored(record)
                account.updated_at = appended_at or account.updated_at
                self.accounts.restore(account)
            case ClosedRecord():
                self.closed.add(record, appended_at, _name_in(key, record))
            case ClosedIdsRecord():
                self.closed.add_chunk(record, appended_at)
            case LaneRecord():
                self.lane = record
            case BudgetLeaseRecord() | BudgetShareRecord():
                pass  # see shared_budget.books
            case Skipped():
                pass  # it speaks to those who read the topic
            case _:
                assert_never(record)

    def end(self, key: str) -> None:
        """Forget what a key of the ledger topic said: a null value, since it was moved."""
        kind, _, name = key.partition(":")
        match kind:
            case "account":
                self.accounts.discard(name)
            case "closed":
                self.closed.end(name)
            case "closed_ids":
                self.closed.end_chunk(name)
            case "lane":
                self.lane = None
            case _:
                pass  # no lane has written it

    def take_in(self, request: Request, place: Origin, now: datetime) -> str | None:
        """Let a request that was admitted at `place` open its account, or share one that is there.

        Gives a note where the budget that it names is not used. The account is kept until the
        request has its outcome: it may wait long before it spends.
        """
        account = self.accounts.get(request.account_id)
        opens = account is None or self.accounts.is_old(account, now)
        account = self.account(request, now)
        account.updated_at = now
        account.admit(request.request_id)
        return take_in(account, request, place, opens=opens)

    def account(self, request: Request, now: datetime) -> Account:
        """The request's account; the first request of a workflow opens it."""
        account = self.accounts.get(request.account_id)
        if account is None or self.accounts.is_old(account, now):
            limit = shared(request.budget)
            account = Account(request.account_id, request.workflow_id, limit, updated_at=now)
            self.accounts.put(account, now)
        return account

    def keep_open(self, request: Request, attempts: int, now: datetime) -> None:
        """List a request with as many attempts among the open ones of its account."""
        account = self.account(request, now)
        if request.request_id not in account.open:
            account.open = {**account.open, request.request_id: attempts}
            self.change(account, now)

    def spend(
        self,
        request: Request,
        tokens: int,
        micro_usd: int,
        now: datetime,
        allowance: Allowance = UNBOUND,
    ) -> Spend | Reserved | BudgetExhausted:
        """Charge one attempt at its worst case, if that fits.

        It does if `spent + in_flight + this + reserved minimum <= limit`.
        """
        account = self.account(request, now)
        with_pending = plus(account.reserved, (1, tokens, micro_usd))
        kept = plus(with_pending, allowance.reserved_minimum)
        if exceeded(account.limit, kept) or allowance.is_reserved:
            which = exhausted(account, tokens, micro_usd, allowance)
            return BudgetExhausted(which=which) if which else Reserved()
        if len(account.open) >= OPEN_MAX and request.request_id not in account.open:
            return Reserved()
        attempt = account.open.get(request.request_id, 0) + 1
        at = now.replace(microsecond=now.microsecond // 1000 * 1000)
        spend = Spend(account.id, request.request_id, attempt, tokens, micro_usd, at)
        account.put(spend)
        self.change(account, now)
        return spend

    def holds(self, spend: Spend) -> bool:
        """Whether the spend is still unsettled; a successor may have written it off."""
        account = self.accounts.get(spend.account_id)
        held = account.in_flight.get((spend.request_id, spend.attempt)) if account else None
        return held == spend

    def settle(self, spend: Spend, usage: Usage, now: datetime, *, counted: bool) -> Account:
        """Replace the worst case by what was used; what was not reported stays as it is."""
        account = self.accounts[spend.account_id]
        account.take(spend)
        self.change(account, now)
        account.charged = plus(account.charged, charge_of(spend, usage, counted=counted))
        if not counted:
            account.give_up(spend)
        self.accounts.rest(account, now)
        return account

    def charge_tool(self, account_id: str, micro_usd: int, now: datetime) -> None:
        """Charge what a tool has cost, which is at most what the account has left."""
        account = self.accounts[account_id]
        account.charged = plus(account.charged, (0, 0, micro_usd))
        account.tools_micro_usd += micro_usd
        self.change(account, now)

    def change(self, account: Account, now: datetime) -> None:
        """The record of an account is to be written again: it changes now."""
        account.updated_at = now
        self._changed[account.id] = account

    def take_changed(self) -> Iterable[Account]:
        """Accounts whose records are to go with the lane's next write."""
        taken, self._changed = self._changed, {}
        return taken.values()

    def close(self, record: ClosedRecord, account_id: str | None) -> None:
        """Remember that a request, or the origin of an invalid record, has had its event."""
        self.closed.add(record)
        account = self.accounts.get(account_id) if account_id else None
        if account:
            account.end(record.closes)
            self.change(account, record.at)
            self.accounts.rest(account, record.at)

    def known(self, request: RequestKey) -> ClosedId | None:
        """The entry of a closed request (see `forget`).

        What a version before has closed is known by the request's own id alone.
        """
        return self.closed.get(request.record_key()) or self.closed.get(request.request_id)

    def known_place(self, place_id: str) -> ClosedId | None:
        """The entry of a record that was not a request; an id may be spelt like its position."""
        return self.closed.get(f"{SEPARATOR}{place_id}")

    def forget(self, now: datetime, committable: int) -> None:
        """Bound the memory: closed ids, and accounts without an event for as long as is set.

        `committable` is the first offset that may be delivered again.
        """
        self.closed.forget(now, committable)
        self.accounts.pack(now)
        if len(self._forgotten) < ENDED_MAX:  # or those that wait for a transaction would add up
            self._forgotten += self.accounts.forget(now)

    def take_forgotten(self) -> list[str]:
        """Accounts whose records are to be ended now; one that was opened again has its own."""
        taken = [self._forgotten.popleft() for _ in range(min(ENDED_MAX, len(self._forgotten)))]
        return [account_id for account_id in taken if account_id not in self.accounts]


def exhausted(
    account: Account, tokens: int, micro_usd: int, allowance: Allowance
) -> BudgetUnit | None:
    """The unit that is too little for an attempt, even if all calls in flight use nothing."""
    charged = plus(account.charged, (1, tokens, micro_usd))
    if which := exceeded(account.limit, plus(charged, allowance.lost)):
        return which
    return "attempts" if allowance.is_used_up else None


def _name_in(key: bytes | None, record: ClosedRecord) -> str:
    if key is None or record.is_place:
        return record.name
    return key.decode(errors="replace").removeprefix(CLOSED_KEY)


def closed_record(
    closes: str,
    workflow_id: str | None,
    body_digest: str,
    outcome: ClosedOutcome,
    offset: int,
    now: datetime,
) -> ClosedRecord:
    """The entry that makes every later copy of a request, or of a record, a duplicate.

    A record that was no request has no workflow.
    """
    return ClosedRecord(
        closes=closes,
        workflow_id=workflow_id,
        body_digest=body_digest,
        outcome=outcome,
        offset=offset,
        at=now,
    )


def charge_of(spend: Spend, usage: Usage, *, counted: bool) -> Charged:
    """The charge of a settled spend: its worst case, as far as no usage was reported."""
    if not counted:
        return 0, 0, 0
    cost = spend.micro_usd if usage.micro_usd is None else usage.micro_usd
    return 1, _tokens(usage, spend.tokens), cost


def _tokens(usage: Usage, worst: int) -> int:
    if usage.input_tokens is None or usage.output_tokens is None:
        return worst
    return usage.input_tokens + usage.output_tokens
