"""The part of a budget that waiting runs must keep, and the maximum of a part of a tree; pure."""

from dataclasses import dataclass

from answerbus.budget import Budget, Spent
from services.worker.core.budget.account import Charged

NOTHING_RESERVED: Charged = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cap:
    """What a child may use with all below it: so many counted attempts, in flight ones included.

    `kept` are those that it must leave to runs within it which wait.
    """

    limit: int
    used: int
    in_flight: int = 0
    kept: int = 0

    @property
    def left(self) -> int:
        """How many more there may be, if those in flight come to nothing."""
        return self.limit - self.used - self.kept

    @property
    def free(self) -> int:
        """How many there may be now."""
        return self.left - self.in_flight


@dataclass(frozen=True, slots=True)
class Allowance:
    """The bounds of a spend beside the limit of its account.

    `reserved_minimum` is left to runs that wait for children, so that each can end. `caps` are
    those of the child that spends, and of those above it. `may_wait`: no run waits for what spends,
    and it reserves no minimum itself, so that it may wait until a run has ended and given its back.
    """

    reserved_minimum: Charged = NOTHING_RESERVED
    caps: tuple[Cap, ...] = ()
    may_wait: bool = False

    @property
    def is_used_up(self) -> bool:
        """Whether no spend is possible any more, however the calls in flight end."""
        return any(cap.left < 1 for cap in self.caps)

    @property
    def is_reserved(self) -> bool:
        return any(cap.free < 1 for cap in self.caps)

    @property
    def lost(self) -> Charged:
        """What of the reserved minimum will not be there for it later, either."""
        return NOTHING_RESERVED if self.may_wait else self.reserved_minimum

    def attempts_left(self, of_account: int) -> int:
        """How many attempts are left, now or later, where the account has `of_account`."""
        return min([of_account - self.lost[0], *(cap.left for cap in self.caps)])

    def attempts_now(self, of_account: int) -> int:
        """How many of them it may make now."""
        return min([of_account - self.reserved_minimum[0], *(cap.left for cap in self.caps)])


UNBOUND = Allowance()


def minimum_after(limit: Budget, tokens: int, micro_usd: int) -> Spent:
    """What one step more may cost, as far as that is limited: as much as this one might have."""
    return Spent(
        tokens=0 if limit.tokens is None else tokens,
        micro_usd=0 if limit.micro_usd is None else micro_usd,
    )
