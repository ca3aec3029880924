"""A lane's lease on a shared budget: it spends from that alone, and asks the home for more."""

from dataclasses import dataclass
from datetime import datetime

from services.worker.core.budget.account import Charged, plus
from services.worker.core.budget.remaining_budget import BudgetUnit
from services.worker.core.shared_budget.rules import (
    ZERO,
    Limit,
    at_least_zero,
    at_most_zero,
    limited,
    minus,
    most_of,
    unit_beyond,
)

PORTIONS = 100  # of a limit, for all lanes together; a lane keeps up to two of its own unused


def portion_of(limit: Limit, partitions: int) -> Charged:
    """The grant beyond a lane's present need: all lanes together get a hundredth of the limit."""
    calls, tokens, micro_usd = ((most or 0) // (PORTIONS * partitions) for most in limit)
    return calls, tokens, micro_usd


@dataclass(slots=True)
class Lease:
    """See BudgetLeaseRecord; `in_flight` is the part of `used` that is not settled.

    `held` is kept for claims, in memory alone: their requests come again after a loss. One that
    was read back is not `is_confirmed`: limits may be others now, so that the home is asked before
    the first spend. `reported` is the part of what is settled that the home knows.
    """

    granted: Charged = ZERO
    returned: Charged = ZERO
    used: Charged = ZERO
    in_flight: Charged = ZERO
    held: Charged = ZERO
    reported: Charged = ZERO
    asked: int = 0
    answered: int = 0
    wanted: Charged = ZERO
    more: Charged = ZERO
    room: Charged | None = None
    is_confirmed: bool = False
    is_tight: bool = False
    begun_at: datetime | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it has asked, and was not answered."""
        return self.asked > self.answered

    @property
    def settled(self) -> Charged:
        """The charges of calls that have ended."""
        return minus(self.used, self.in_flight)

    @property
    def free(self) -> Charged:
        """The amounts neither used nor held; meaningless for units without a limit."""
        return minus(minus(self.granted, self.returned), plus(self.used, self.held))

    @property
    def is_idle(self) -> bool:
        """Whether no call is charged to it, or about to be."""
        return self.in_flight == ZERO == self.held

    def is_exceeded(self, limit: Limit) -> bool:
        """Whether more is used than it has, as of a unit that had no limit before."""
        return at_most_zero(limited(limit, self.free)) != ZERO

    def is_within(self, amounts: Charged, limit: Limit) -> bool:
        """Whether no more than this is free."""
        return unit_beyond(_bound(limit, amounts), self.free) is None

    def has_news(self, portion: Charged, limit: Limit) -> bool:
        """Whether more than a portion is settled that was not reported to its home."""
        return unit_beyond(_bound(limit, portion), minus(self.settled, self.reported)) is not None

    def lacks(self, need: Charged) -> Charged:
        """The need of a claim; more after a call that cost more than its worst case."""
        return minus(need, at_most_zero(self.free))

    def beyond(self, need: Charged, limit: Limit) -> BudgetUnit | None:
        """The first unit that a call needs more of than will ever be left; None: it may fit."""
        if (which := unit_beyond(limit, need)) or self.room is None:
            return which
        return unit_beyond(_bound(limit, self.room), self._added(need))

    def _added(self, need: Charged) -> Charged:
        """As the home counts it: what is settled beyond the lease is in there already."""
        had = minus(self.granted, self.returned)
        return minus(plus(had, self.lacks(need)), most_of(had, self.settled))

    def has(self, need: Charged, limit: Limit) -> bool:
        """Whether a call may be charged now."""
        return self.is_confirmed and unit_beyond(_bound(limit, self.free), need) is None

    def hold(self, need: Charged) -> None:
        """Keep so much for a claim."""
        self.held = plus(self.held, need)

    def let_go(self, need: Charged) -> None:
        """The claim is spent, or over."""
        self.held = minus(self.held, need)

    def spend(self, worst: Charged) -> None:
        """Charge a call at its worst case."""
        self.used, self.in_flight = plus(self.used, worst), plus(self.in_flight, worst)

    def settle(self, worst: Charged, charged: Charged) -> None:
        """The call has ended, and is charged so much instead."""
        self.used = plus(minus(self.used, worst), charged)
        self.in_flight = minus(self.in_flight, worst)

    def ask(self, need: Charged, more: Charged, limit: Limit) -> None:
        """Ask for one call and for more; all that is free goes back with it.

        Two lanes that each kept a part of what they need would wait for each other.
        """
        self.give_back(ZERO, limit)
        self.asked += 1
        self.wanted, self.more = limited(limit, self.lacks(need)), limited(limit, more)

    def give_back(self, kept: Charged, limit: Limit) -> bool:
        """Give back what is free beyond `kept`; whether there was anything."""
        over = limited(limit, at_least_zero(minus(self.free, kept)))
        self.returned = plus(self.returned, over)
        return over != ZERO

    def take(self, granted: Charged, room: Charged | None, answered: int, *, tight: bool) -> bool:
        """Hear from the home; whether it wants back what is free, and did not before.

        It has answered so often, be it with nothing.
        """
        self.granted = granted
        was_tight, self.is_tight = self.is_tight, tight
        if answered > self.answered:
            self.answered, self.room, self.is_confirmed = answered, room, True
        return tight and not was_tight


def _bound(limit: Limit, amounts: Charged) -> Limit:
    """These amounts as the limit, of the units that have one."""
    calls, tokens, micro_usd = (
        None if most is None else amount for most, amount in zip(limit, amounts, strict=True)
    )
    return calls, tokens, micro_usd
