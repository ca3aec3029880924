"""Who runs and who is next: fair between profiles, and within one between workflows."""

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from services.worker.core.ticket import Stage, Ticket

_Workflows = OrderedDict[str, deque[Ticket]]


@dataclass(slots=True)
class Turns:
    """Ready tickets, taken round robin over profiles, then over workflows.

    Those that run wait for a place at their profile, for hours if it is away or slow: they must not
    keep the requests of other profiles from running.
    """

    running: int = 0
    _running_of: Counter[str] = field(default_factory=Counter)
    _ready: OrderedDict[str, _Workflows] = field(default_factory=OrderedDict)

    @property
    def profiles(self) -> AbstractSet[str]:
        """Those of whom somebody runs or is ready."""
        return self._running_of.keys() | self._ready.keys()

    def pressing(self, away: Container[str]) -> int:
        """Requests that run and workflows that have somebody ready, but for profiles `away`."""
        running = sum(n for profile, n in self._running_of.items() if profile not in away)
        ready = (len(found) for profile, found in self._ready.items() if profile not in away)
        return running + sum(ready)

    def line_up(self, ticket: Ticket) -> None:
        """Its turn will come."""
        ticket.stage = Stage.READY
        request = ticket.request
        workflows = self._ready.setdefault(request.profile, OrderedDict())
        workflows.setdefault(request.workflow_id, deque()).append(ticket)

    def take(self, most: int = sys.maxsize) -> Ticket | None:
        """The next, running, of a profile of which fewer than `most` run."""
        for profile in list(self._ready):
            if self._running_of[profile] < most and (ticket := self._next_of(profile)):
                return self.run(ticket)
        return None

    def run(self, ticket: Ticket) -> Ticket:
        """Let it run, whoever's turn it is."""
        ticket.stage = Stage.RUNNING
        self.running += 1
        self._running_of[ticket.request.profile] += 1
        return ticket

    def stop(self, ticket: Ticket) -> None:
        """It runs no longer."""
        self.running -= 1
        profile = ticket.request.profile
        self._running_of[profile] -= 1
        if not self._running_of[profile]:
            del self._running_of[profile]  # requests may name any

    def _next_of(self, profile: str) -> Ticket | None:
        """Passes over those that their deadline made run before their turn."""
        workflows = self._ready[profile]
        found = None
        while workflows and found is None:
            workflow_id, waiting = workflows.popitem(last=False)
            ticket = waiting.popleft()
            if waiting:
                workflows[workflow_id] = waiting
            if ticket.stage is Stage.READY:
                found = ticket
        if workflows:
            self._ready.move_to_end(profile)
        else:
            del self._ready[profile]
        return found
