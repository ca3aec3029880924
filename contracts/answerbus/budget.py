"""Budgets and accounts: the limits of a workflow, and its spending so far."""

from typing import Annotated

from pydantic import Field

from answerbus import limits
from answerbus.wire import Count, Wire


class Budget(Wire):
    """The limits of a workflow in all; `None` means no limit, `0` nothing at all.

    The first request that names one settles it; where none does, each adds its own attempts.
    """

    attempts: Annotated[int, Field(ge=0, le=limits.ATTEMPTS_MAX)] = limits.ATTEMPTS_DEFAULT
    tokens: Count | None = None
    micro_usd: Count | None = None


class Spent(Wire):
    """The sum charged: counted attempts, tokens, and millionths of a US dollar."""

    attempts: Count = 0
    tokens: Count = 0
    micro_usd: Count = 0


def _is_none(value: object) -> bool:
    return value is None


class Usage(Wire):
    """The usage of one call, as its provider reported it; `None` where it reported nothing.

    `cached_tokens` are those of the input that the provider read from its cache.
    """

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    micro_usd: Count | None = None
    cached_tokens: Annotated[Count | None, Field(exclude_if=_is_none)] = None

    def plus(self, other: "Usage") -> "Usage":
        """Both together; what was not reported counts as nothing."""
        return Usage(
            input_tokens=(self.input_tokens or 0) + (other.input_tokens or 0),
            output_tokens=(self.output_tokens or 0) + (other.output_tokens or 0),
            micro_usd=(self.micro_usd or 0) + (other.micro_usd or 0),
            cached_tokens=(self.cached_tokens or 0) + (other.cached_tokens or 0) or None,
        )


class AccountState(Wire):
    """An account as an event shows it: its frozen limit and what was charged so far."""

    id: str
    limit: Budget
    spent: Spent
