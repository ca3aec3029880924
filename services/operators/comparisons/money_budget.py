"""The money of a comparison: reserved before each call, at its worst case; pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class MoneyBudget:
    """A call is made if `limit` has room for its worst case beside what is charged and reserved.

    `charged` is more than `limit` only by what calls cost above their worst case.
    """

    limit_micro_usd: int
    charged_micro_usd: int = 0
    reserved_micro_usd: int = 0

    def reserve(self, most: int) -> bool:
        """Set aside what a call can cost at most; False where that is more than is left."""
        if self.charged_micro_usd + self.reserved_micro_usd + most > self.limit_micro_usd:
            return False
        self.reserved_micro_usd += most
        return True

    def settle(self, most: int, cost: int) -> None:
        """A call that reserved `most` is over, and is charged what it did cost."""
        self.reserved_micro_usd -= most
        self.charged_micro_usd += cost
