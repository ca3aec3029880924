"""The open children of a lane's runs: whose they are, and what they leave to others and use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from services.worker.core.budget.account import Account, Charged
from services.worker.core.budget.allowance import NOTHING_KEPT, UNBOUND, Allowance, Cap
from services.worker.core.request.ticket import Ticket
from services.worker.core.run.children import may_ask


@dataclass(slots=True)
class OpenChildren:
    """By the run that asks; `tickets` are all open requests of the lane.

    A request is a child while its run is open, and in it the call that asks. So a run that has
    children waits, and does not run before they are gone.
    """

    tickets: Mapping[str, Ticket]
    _of: dict[str, dict[str, Ticket]] = field(default_factory=dict)

    def put(self, ticket: Ticket) -> None:
        """Take a ticket in, if it is a child."""
        parent = ticket.request.parent
        above = self.tickets.get(parent.request_id) if parent else None
        if parent and above and may_ask(above.request, above.run, ticket.request):
            self._of.setdefault(parent.request_id, {})[ticket.request.request_id] = ticket

    def put_all(self) -> None:
        """Take in the children among all tickets, whatever the order in which those came."""
        for ticket in self.tickets.values():
            self.put(ticket)

    def end(self, ticket: Ticket) -> Ticket | None:
        """A ticket is gone; gives the run that was waiting for it and has no other child."""
        above = self.parent_of(ticket)
        if above is None:
            return None
        siblings = self._of[above.request.request_id]
        del siblings[ticket.request.request_id]
        if siblings:
            return None
        del self._of[above.request.request_id]
        return above

    def parent_of(self, ticket: Ticket) -> Ticket | None:
        """The run that asked, if it is a child."""
        parent = ticket.request.parent
        if parent is None or ticket.request.request_id not in self._of.get(parent.request_id, ()):
            return None
        return self.tickets.get(parent.request_id)

    def of(self, ticket: Ticket) -> list[Ticket]:
        """Those that a run has asked, and which are open."""
        return list(self._of.get(ticket.request.request_id, {}).values()) if self._of else []

    def below(self, ticket: Ticket) -> Iterator[Ticket]:
        """These, and those that they have asked."""
        for child in self.of(ticket):
            yield child
            yield from self.below(child)

    def allowance(self, ticket: Ticket, account: Account) -> Allowance:
        """What bounds the spends of a request beside the limit of its account."""
        if not self._of:
            return UNBOUND
        waiting = (self.tickets.get(name) for name in self._of)
        floors = [_floor(one) for one in waiting if one and one.request.account_id == account.id]
        caps, above = list[Cap](), self.parent_of(ticket)
        one: Ticket | None = ticket
        while above is not None and one is not None:
            parent = one.request.parent
            if parent and parent.cap is not None:
                caps.append(self._cap(one, parent.cap, account))
            one, above = above, self.parent_of(above)
        return Allowance(_sum(floors), tuple(caps))

    def used(self, ticket: Ticket, account: Account) -> int:
        """The counted attempts of a request and all below it, as far as they are settled."""
        ended = ticket.run.spent_by_children if ticket.run else 0
        own = account.counted_of(ticket.request.request_id)
        return own + ended + sum(self.used(child, account) for child in self.of(ticket))

    def _cap(self, ticket: Ticket, limit: int, account: Account) -> Cap:
        within = [ticket, *self.below(ticket)]
        return Cap(
            limit,
            self.used(ticket, account),
            sum(account.in_flight_of(one.request.request_id) for one in within),
            sum(_floor(one)[0] for one in within if self.of(one)),
        )


def _floor(ticket: Ticket) -> Charged:
    if ticket.run is None:
        return NOTHING_KEPT
    floor = ticket.run.floor
    return floor.attempts, floor.tokens, floor.micro_usd


def _sum(charges: list[Charged]) -> Charged:
    attempts, tokens, micro_usd = zip(*charges, strict=True) if charges else ((), (), ())
    return sum(attempts), sum(tokens), sum(micro_usd)
