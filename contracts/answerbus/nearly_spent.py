"""The event that a label's budget is four fifths used."""

from typing import Final, Literal

from answerbus.budget import BudgetName, Spent, Window
from answerbus.wire import Count, Timestamp, Wire

NEARLY_SPENT_PERCENT: Final = 80


class BudgetLimit(Wire):
    """Calls, tokens and millionths of a US dollar in one day or month; `None` means no limit."""

    attempts: Count | None = None
    tokens: Count | None = None
    micro_usd: Count | None = None


class BudgetNearlySpent(Wire):
    """In this day or month of UTC, `percent` of the limit of one unit of a budget are used.

    `spent` are calls that have ended. It is published once; again only where the limit was raised
    so far that less was used, or in the next day or month.
    """

    kind: Literal["budget_nearly_spent"] = "budget_nearly_spent"
    budget: BudgetName
    window: Window
    percent: Literal[80] = NEARLY_SPENT_PERCENT
    limit: BudgetLimit
    spent: Spent
    at: Timestamp

    @property
    def record_key(self) -> str:
        """All about a budget is in one partition, that of its home lane."""
        return self.budget

    @property
    def event_id(self) -> str:
        """Derived from the limit as well, since another one is another event."""
        units = self.limit.attempts, self.limit.tokens, self.limit.micro_usd
        limit = "-".join("none" if most is None else str(most) for most in units)
        return f"{self.budget}@{self.window}.nearly_spent.{limit}"
