"""The private records of shared budgets: what a lane has of one, and what its home lane gave."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus.budget import Spent
from answerbus.limits import LABEL_CHARS_MAX
from answerbus.wire import Count, Timestamp, Wire

LEASE_KEY = "budget_lease:"
SHARE_KEY = "budget_share:"
NAME_CHARS_MAX = 2 * LABEL_CHARS_MAX + 1

BudgetName = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
Window = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$")]


class BudgetLeaseRecord(Wire):
    """What one lane has of a shared budget in a window, a day or month of UTC; all are sums.

    `used` are the spends of the lane, those in flight at their worst case, and `settled` those
    whose call has ended. `granted` is what the home lane gave, and `returned` what the lane gave
    back, so that `used <= granted - returned`. It has `asked` so many times; the last time it
    `wanted` that much for one call, and `more` for others. `is_tight`: it gives back at once what
    it does not use. The home lane reads the same record.
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
    at: Timestamp

    @property
    def record_key(self) -> str:
        """In the ledger."""
        return f"{LEASE_KEY}{self.budget}@{self.window}"


class BudgetShareRecord(Wire):
    """What the home lane of a shared budget gave one lane in a window, and last heard from it.

    `granted - returned` of all lanes together is at most the limit. The lane has `asked` so many
    times, and so many are `answered`. `room`: no call that costs more fits any more. `is_tight`:
    what is not used is to be given back at once. The lane that is meant reads the same record.
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
    at: Timestamp

    @property
    def record_key(self) -> str:
        """In the ledger."""
        return f"{SHARE_KEY}{self.lane}:{self.budget}@{self.window}"
