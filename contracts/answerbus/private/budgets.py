"""The private records of shared budgets: what a lane has of one, and what its home lane gave."""

from typing import Literal

from answerbus.budget import BudgetName, Spent, Window
from answerbus.wire import Count, Timestamp, Wire

LEASE_KEY = "budget_lease:"
SHARE_KEY = "budget_share:"


class BudgetLeaseRecord(Wire):
    """What one lane has of a shared budget in a window, a day or month of UTC; all are sums.

    `used` are the spends of the lane, those in flight at their worst case, and `settled` those
    whose call has ended. `granted` is what the home lane gave, and `returned` what the lane gave
    back, so that `used <= granted - returned`. It has `asked` so many times; the last time it
    `wanted` that much for one call, and `more` for others. `is_tight`: it gives back at once what
    it does not use. `begun_at`: a lane that was shut for longer than the ledger remembers begins
    another lease. The home lane reads the same record.
    """

    kind: Literal["budget_lease"] = "budget_lease"
    v: Literal[1] = 1
    budget: BudgetName
    window: Window
    lane: Count
    granted: Spent = Spent()
    returned: Spent = Spent()
    used: Spent = Spent()
    settled: Spent = Spent()
    asked: Count = 0
    wanted: Spent = Spent()
    more: Spent = Spent()
    is_tight: bool = False
    begun_at: Timestamp | None = None
    at: Timestamp

    @property
    def record_key(self) -> str:
        """In the ledger."""
        return f"{LEASE_KEY}{self.budget}@{self.window}"


class BudgetShareRecord(Wire):
    """What the home lane of a shared budget gave one lane in a window, and last heard from it.

    `granted - returned` of all lanes together is at most the limit. The lane has `asked` so many
    times, and so many are `answered`. `room`: no call that costs more fits any more. `is_tight`:
    what is not used is to be given back at once. All of that is of the lease that the lane has
    `begun_at`; what it had in leases that it has `forgotten` counts as used. `is_announced`: the
    home has published that the budget is nearly spent. The lane that is meant reads this, too.
    """

    kind: Literal["budget_share"] = "budget_share"
    v: Literal[1] = 1
    budget: BudgetName
    window: Window
    lane: Count
    granted: Spent = Spent()
    returned: Spent = Spent()
    settled: Spent = Spent()
    asked: Count = 0
    answered: Count = 0
    wanted: Spent = Spent()
    more: Spent = Spent()
    room: Spent | None = None
    is_tight: bool = False
    begun_at: Timestamp | None = None
    forgotten: Spent = Spent()
    is_announced: bool = False
    at: Timestamp

    @property
    def record_key(self) -> str:
        """In the ledger."""
        return f"{SHARE_KEY}{self.lane}:{self.budget}@{self.window}"
