"""The money of a comparison: reserved before each call, at its worst case; pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class MoneyBudget:
    """`charged` and what is reserved for calls under way are never more than `limit`."""

    limit_micro_usd: int
    charged_micro_usd: int = 0
    reserved_micro_usd: int = 0

    def reserve(self, most: int) -> bool:
        """Set aside what a call can cost at most; False where that is more than is left."""
        if self.charged_micro_usd + self.reserved_micro_usd + most > self.limit_micro_usd:
            return False
        self.reserved_micro_usd += most
        return True

    def settle(self, most: int, cost: int) -> int:
        """A call is over, and did cost so much; gives what was charged, at most the reservation."""
        charged = min(cost, most)
        self.reserved_micro_usd -= most
        self.charged_micro_usd += charged
        return charged
