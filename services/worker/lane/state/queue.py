"""The queue: order within a workflow, fairness between workflows, retries and deadlines."""

import sys
from collections import Counter, deque
from collections.abc import Callable, Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

from answerbus.request import Request
from answerbus.request_key import RequestKey
from services.worker.core.request.ticket import Stage, Ticket
from services.worker.lane.state.deadlines import Deadlines
from services.worker.lane.state.fair_scheduler import FairScheduler
from services.worker.lane.state.held_tickets import HeldTickets
from services.worker.lane.state.open_children import OpenChildren


@dataclass(slots=True)
class Queue:
    """The requests in a lane's hands, from admission to the terminal.

    A workflow's ordered tickets form a chain of which only the head may run, also while it waits
    for a retry. Ready tickets take turns, so that neither a workflow with thousands of requests nor
    a profile that is slow or away starves the others. A ticket whose account has nothing left but
    what calls in flight may give back waits for that, and with it all others of the account but
    runs that keep their floor: others may wait for these.
    `excess` are the requests beyond `workflow_share_max` of their workflow. Children stand outside
    of the chain, in the turn of their run, which does not run while it has some.
    """

    workflow_share_max: int = sys.maxsize
    is_held: Callable[[RequestKey], bool] = lambda _: (
        False
    )  # of a request: it runs only when it is tried
    tickets: dict[RequestKey, Ticket] = field(default_factory=dict)
    digests: dict[RequestKey, str] = field(default_factory=dict)
    bytes: int = 0
    excess: int = 0
    children: OpenChildren = field(init=False)
    _of_workflow: Counter[str] = field(default_factory=Counter)
    _unfunded: dict[str, deque[Ticket]] = field(default_factory=dict)  # by account
    _apart: dict[RequestKey, Ticket] = field(
        default_factory=dict
    )  # that are held, and could run else
    _funded: set[Ticket] = field(default_factory=set)  # whose account is to be asked again
    _chains: dict[str, deque[Ticket]] = field(default_factory=dict)
    _scheduler: FairScheduler = field(default_factory=FairScheduler)
    _held: HeldTickets = field(default_factory=HeldTickets)
    _deadlines: Deadlines = field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        self.children = OpenChildren(self.tickets)

    def __len__(self) -> int:
        return len(self.tickets)

    def put(self, ticket: Ticket) -> None:
        """Take a ticket in, behind what its workflow already has."""
        request = ticket.request
        self.tickets[ticket.key] = ticket
        self.digests[ticket.key] = ticket.body_digest
        self.bytes += ticket.size_bytes
        self._of_workflow[request.workflow_id] += 1
        self.excess += self._of_workflow[request.workflow_id] > self.workflow_share_max
        self._deadlines.add(ticket)
        if not _is_ordered(request):
            self.children.put(ticket)
            self._admit(ticket)
            return
        chain = self._chains.setdefault(request.workflow_id, deque())
        chain.append(ticket)
        if len(chain) == 1:
            self._admit(ticket)

    def adopt(self, ticket: Ticket) -> None:
        """Take in a ticket whose call is in flight; it runs at the head of its workflow."""
        self.put(ticket)
        self._scheduler.run(ticket)

    def take(self, most: int = sys.maxsize) -> Ticket | None:
        """The next ticket whose turn has come; it runs until `hold` or `finish`.

        At most `most` requests of one profile run.
        """
        while ticket := self._scheduler.take(most):
            if ticket in self._funded:
                self._funded.discard(ticket)
            elif ticket.request.account_id in self._unfunded and not ticket.keeps_floor:
                self._wait_for_funds(ticket)  # behind those that found out
                continue
            return ticket
        return None

    def wait_for_funds(self, ticket: Ticket, now: datetime) -> None:
        """Set a running ticket aside until `fund`, or its deadline."""
        self._wait_for_funds(ticket)
        if ticket.deadline <= now:  # it passed while it ran
            self._deadlines.add(ticket)

    @property
    def has_funded(self) -> bool:
        """Whether its account is to be asked again."""
        return bool(self._funded)

    def fund(self, account_id: str) -> None:
        """Something of the account may be free: the first that waits tries again, then the next."""
        waiting = self._unfunded.get(account_id, deque())
        while waiting:
            ticket = waiting.popleft()
            if ticket.stage is Stage.UNFUNDED:
                self._funded.add(ticket)
                self._line_up(ticket, first=True)
                break
        if not waiting:
            self._unfunded.pop(account_id, None)

    def apart(self) -> list[RequestKey]:
        """The requests that are held, and could run."""
        return [name for name, ticket in self._apart.items() if ticket.stage is Stage.READY]

    def take_apart(self, key: RequestKey) -> Ticket:
        """One of `apart`, which runs until `hold` or `finish`."""
        ticket = self._apart.pop(key)
        self._funded.discard(ticket)
        return self._scheduler.run(ticket)

    def hold(self, ticket: Ticket, not_before: datetime) -> None:
        """Set a running ticket aside until then; its workflow waits with it."""
        self._scheduler.stop(ticket)
        ticket.not_before = not_before
        self._admit(ticket)
        if not_before >= ticket.deadline:  # which may have passed while it ran
            self._deadlines.add(ticket)

    def release(self, ticket: Ticket) -> None:
        """What a held ticket waits for is there before its moment."""
        if self._held.release(ticket):
            self._make_ready(ticket)

    def run_at_once(self, ticket: Ticket) -> bool:
        """Let a ticket run wherever it stands; False if it runs, is gone, or has children."""
        if ticket.stage in {Stage.RUNNING, Stage.GONE} or self.children.of(ticket):
            return False
        self._held.release(ticket)
        self._funded.discard(ticket)
        self._apart.pop(ticket.key, None)
        self._scheduler.run(ticket)
        return True

    def finish(self, ticket: Ticket) -> Ticket | None:
        """Let a running ticket go; the next of its workflow becomes ready.

        Gives the run that waited for it, if it was its last child.
        """
        kept_floor, above = ticket.keeps_floor, self.children.end(ticket)
        if above:
            self._deadlines.add(above)  # it may have passed while children were open
        self._let_go(ticket)
        if kept_floor:
            self.fund(ticket.request.account_id)
        return above

    def _let_go(self, ticket: Ticket) -> None:
        self._scheduler.stop(ticket)
        ticket.stage = Stage.GONE
        request = ticket.request
        del self.tickets[ticket.key]
        del self.digests[ticket.key]
        self.bytes -= ticket.size_bytes
        self._funded.discard(ticket)
        self._apart.pop(ticket.key, None)
        self.excess -= self._of_workflow[request.workflow_id] > self.workflow_share_max
        self._of_workflow[request.workflow_id] -= 1
        if not self._of_workflow[request.workflow_id]:
            del self._of_workflow[request.workflow_id]
        self._deadlines.forget_the_gone(len(self.tickets))
        chain = self._chains.get(request.workflow_id)
        if not _is_ordered(request) or chain is None:
            return
        was_head = chain[0] is ticket
        chain.remove(ticket)
        if not chain:
            del self._chains[request.workflow_id]
        elif was_head and chain[0].stage is Stage.WAITING:  # else its deadline made it run before
            self._admit(chain[0])

    def wake(self, now: datetime) -> list[Ticket]:
        """Make due retries ready; return the tickets whose deadline has passed, as running."""
        for ticket in self._held.due(now):
            if not self.children.of(ticket):  # else the last of them lets it go on
                self._make_ready(ticket)
        return [ticket for ticket in self._deadlines.passed(now) if self.run_at_once(ticket)]

    def next_moment(self) -> datetime | None:
        """When `wake` may have something to do."""
        moments = (self._held.next_moment(), self._deadlines.next_moment())
        return min((moment for moment in moments if moment), default=None)

    @property
    def running(self) -> int:
        """Requests that were taken, adopted or woken by their deadline."""
        return self._scheduler.running

    def largest(self) -> tuple[str, int, int] | None:
        """The workflow with the most requests, how many, and how many of them run."""
        found = max(self._of_workflow.items(), key=itemgetter(1), default=None)
        return found and (*found, self._scheduler.running_in[found[0]])

    @property
    def profiles(self) -> AbstractSet[str]:
        """Those of whom some request runs or could."""
        return self._scheduler.profiles

    def pressing(self, unavailable: Container[str] = ()) -> int:
        """Requests that run, or are the next of their workflow to run.

        All others are retries that wait for their moment, stand behind another request, or want a
        profile that is `unavailable`.
        """
        return self._scheduler.pressing(unavailable)

    @property
    def held(self) -> int:
        """Requests that wait for their moment: retries, and runs whose tools are at work."""
        return len(self._held)

    def _admit(self, ticket: Ticket) -> None:
        if ticket.not_before is None:
            self._make_ready(ticket)
        else:
            ticket.stage = Stage.HELD
            self._held.add(ticket, ticket.not_before)

    def _wait_for_funds(self, ticket: Ticket) -> None:
        self._scheduler.stop(ticket)
        ticket.stage = Stage.UNFUNDED
        waiting = self._unfunded.setdefault(ticket.request.account_id, deque())
        (waiting.appendleft if ticket.keeps_floor else waiting.append)(ticket)

    def _make_ready(self, ticket: Ticket) -> None:
        ticket.not_before = None
        self._line_up(ticket)

    def _line_up(self, ticket: Ticket, *, first: bool = False) -> None:
        if self.is_held(ticket.key):
            ticket.stage = Stage.READY
            self._apart[ticket.key] = ticket
        else:
            self._scheduler.line_up(ticket, first=first)


def _is_ordered(request: Request) -> bool:
    return request.policy.ordering == "workflow" and request.parent is None
