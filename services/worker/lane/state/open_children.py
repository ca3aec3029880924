"""The open children of a lane's runs: their parents, their spending, and reserved budgets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from answerbus.budget import Spent
from answerbus.request import Request
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Account, Charged
from services.worker.core.budget.allowance import UNBOUND, Allowance, Cap
from services.worker.core.budget.remaining_budget import exceeded
from services.worker.core.request.ticket import Ticket
from services.worker.core.run.children import may_ask
from services.worker.core.run.composition import Funds
from services.worker.core.run.run import Run

NO_FLOOR = Spent()


@dataclass(slots=True)
class OpenChildren:
    """By the run that asks; `tickets` are all open requests of the lane.

    A request becomes a child while its run is open, and in it the call that asks. A run that has
    children waits, and does not run before they are gone, also where their calls have ended. A run
    keeps its floor from the first spend on whose answer may call tools, until one whose answer
    cannot; if that one is not counted, it keeps it again.
    """

    tickets: Mapping[RequestKey, Ticket]
    _of: dict[RequestKey, dict[RequestKey, Ticket]] = field(default_factory=dict)
    _keeping: dict[str, dict[RequestKey, Ticket]] = field(default_factory=dict)  # by account

    def put(self, ticket: Ticket) -> None:
        """Take a ticket in, if it is a child."""
        above = self._named_parent(ticket)
        if above and may_ask(above.request, above.run, ticket.request):
            self._put(ticket, above)

    def _put(self, ticket: Ticket, above: Ticket) -> None:
        self._of.setdefault(above.key, {})[ticket.key] = ticket

    def put_all(self, accounts: Mapping[str, Account]) -> None:
        """Take in the children among all tickets, in any order, and the floors of runs.

        They are what an opening found: each was a child, though its call may have ended since. A
        run that kept no floor had made its last attempt; if a crash has made that count, the run
        needs another one, and keeps what is left beside the floors of others.
        """
        for ticket in self.tickets.values():
            above = self._named_parent(ticket)
            if above and above.run and above.request.account_id == ticket.request.account_id:
                self._put(ticket, above)
        spenders = []
        for ticket in self.tickets.values():
            account = accounts.get(ticket.request.account_id)
            if ticket.run is None or not (ticket.run.steps or account):
                continue
            if account is None:  # no model has been asked yet
                self._keep(ticket, floor=True)
            elif _kept_floor(ticket, ticket.run, account):
                self.keep(ticket, account, floor=True)
            elif ticket.run.steps:
                spenders.append((ticket, account))
        for ticket, account in spenders:
            self.keep(ticket, account, floor=self._is_left(ticket, account))

    def _is_left(self, ticket: Ticket, account: Account) -> bool:
        """Whether a floor is there beside those of others: a crash may have cost what was kept."""
        kept = [_floor(run) for run in self._keeping.get(account.id, {}).values()]
        pending = [(1, spend.tokens, spend.micro_usd) for spend in account.in_flight.values()]
        needed = _sum([account.charged, *pending, *kept, _floor(ticket)])
        return exceeded(account.limit, needed) is None

    def keep(self, ticket: Ticket, account: Account, *, floor: bool) -> None:
        """Whether others have to leave a run what one step more may cost."""
        account.keep_floor(ticket.request.request_id, floor=floor)
        self._keep(ticket, floor=floor)

    def _keep(self, ticket: Ticket, *, floor: bool) -> None:
        request, ticket.keeps_floor = ticket.request, floor
        keeping = self._keeping.setdefault(request.account_id, {})
        if floor:
            keeping[ticket.key] = ticket
        else:
            keeping.pop(ticket.key, None)
        if not keeping:
            del self._keeping[request.account_id]

    def uncounted(self, ticket: Ticket, account: Account) -> None:
        """Its last spend came to nothing: a run that has taken steps has to ask that one again."""
        if ticket.run and ticket.run.steps:
            self.keep(ticket, account, floor=True)

    def end(self, ticket: Ticket) -> Ticket | None:
        """A ticket is gone; gives the run that was waiting for it and has no other child."""
        if ticket.request.account_id in self._keeping:
            self._keep(ticket, floor=False)
        above = self.parent_of(ticket)
        if above is None:
            return None
        siblings = self._of[above.key]
        del siblings[ticket.key]
        if siblings:
            return None
        del self._of[above.key]
        return above

    def parent_of(self, ticket: Ticket) -> Ticket | None:
        """The run that asked, if it is a child."""
        parent = parent_key(ticket.request)
        if parent is None or ticket.key not in self._of.get(parent, ()):
            return None
        return self.tickets.get(parent)

    def _named_parent(self, ticket: Ticket) -> Ticket | None:
        parent = parent_key(ticket.request)
        return self.tickets.get(parent) if parent else None

    def of(self, ticket: Ticket) -> list[Ticket]:
        """Those that a run has asked, and which are open."""
        return list(self._of.get(ticket.key, {}).values()) if self._of else []

    def below(self, ticket: Ticket) -> Iterator[Ticket]:
        """These, and those that they have asked."""
        for child in self.of(ticket):
            yield child
            yield from self.below(child)

    def allowance(self, ticket: Ticket, account: Account) -> Allowance:
        """What bounds the spends of a request beside the limit of its account."""
        keeping = self._keeping.get(account.id, {})
        if not keeping:
            return UNBOUND
        floors = [_floor(one) for one in keeping.values() if one is not ticket]
        caps, above = list[Cap](), self.parent_of(ticket)
        one: Ticket | None = ticket
        while above is not None and one is not None:
            parent = one.request.parent
            if parent and parent.cap is not None:
                caps.append(self._cap(one, parent.cap, account, ticket))
            one, above = above, self.parent_of(above)
        may_wait = self.parent_of(ticket) is None and not ticket.keeps_floor
        return Allowance(_sum(floors), tuple(caps), may_wait=may_wait)

    def attempts_left(self, ticket: Ticket, account: Account) -> int:
        """How many a request may still make, if those in flight come to nothing."""
        left = account.limit.attempts - account.charged[0]
        return self.allowance(ticket, account).attempts_left(left)

    def attempts_now(self, ticket: Ticket, account: Account) -> int:
        """The same, without what it must leave to runs now."""
        left = account.limit.attempts - account.charged[0]
        return self.allowance(ticket, account).attempts_now(left)

    def funds(self, ticket: Ticket, account: Account) -> Funds:
        """What a request may use now, as far as no call in flight gives anything back."""
        pending, limit = account.in_flight.values(), account.limit
        floor = self.allowance(ticket, account).floor
        tokens = account.charged[1] + sum(spend.tokens for spend in pending) + floor[1]
        micro_usd = account.charged[2] + sum(spend.micro_usd for spend in pending) + floor[2]
        return Funds(
            self.attempts_now(ticket, account) - len(pending),
            None if limit.tokens is None else limit.tokens - tokens,
            None if limit.micro_usd is None else limit.micro_usd - micro_usd,
        )

    def used(self, ticket: Ticket, account: Account) -> int:
        """The counted attempts of a request and all below it, as far as they are settled."""
        ended = ticket.run.spent_by_children if ticket.run else 0
        own = account.counted_of(ticket.request.request_id)
        return own + ended + sum(self.used(child, account) for child in self.of(ticket))

    def _cap(self, ticket: Ticket, limit: int, account: Account, spends: Ticket) -> Cap:
        within, keeping = [ticket, *self.below(ticket)], self._keeping.get(account.id, {})
        return Cap(
            limit,
            self.used(ticket, account),
            sum(account.in_flight_of(one.request.request_id) for one in within),
            sum(one is not spends and one.key in keeping for one in within),
        )


def parent_key(request: Request) -> RequestKey | None:
    """The run that a request names as its parent: one of its own workflow."""
    parent = request.parent
    return RequestKey(request.workflow_id, parent.request_id) if parent else None


def _kept_floor(ticket: Ticket, run: Run, account: Account) -> bool:
    """Whether a run kept its floor before an opening, as its account says from its first spend."""
    request_id = ticket.request.request_id
    return request_id in account.keeping if request_id in account.open else bool(run.steps)


def _floor(ticket: Ticket) -> Charged:
    floor = ticket.run.floor if ticket.run else NO_FLOOR
    return floor.attempts, floor.tokens, floor.micro_usd


def _sum(charges: list[Charged]) -> Charged:
    attempts, tokens, micro_usd = zip(*charges, strict=True) if charges else ((), (), ())
    return sum(attempts), sum(tokens), sum(micro_usd)
