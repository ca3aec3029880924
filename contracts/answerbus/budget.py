"""Budgets and accounts: the limits of a workflow, and its spending so far."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from answerbus import limits
from answerbus.wire import IN_64_BITS, OMIT_NONE, Count, RequestPart, Wire

_NAME_CHARS_MAX = 2 * limits.LABEL_CHARS_MAX + 1
BudgetName = Annotated[str, Field(min_length=1, max_length=_NAME_CHARS_MAX)]
Window = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$")]
"""A day or month of UTC, for which a budget of a label holds."""


# More is no error: clients give the largest number that they have for "as much as you like".
_Most = Annotated[int, Field(ge=0), IN_64_BITS]


class Budget(RequestPart):
    """The limits of a workflow in all; `None` means no limit, `0` nothing at all.

    More than 2^63 - 1 of tokens or micro-dollars is read as that. The first request that names one
    settles it; where none does, each adds its own attempts.
    """

    attempts: Annotated[int, Field(ge=0, le=limits.ATTEMPTS_MAX)] = limits.ATTEMPTS_DEFAULT
    tokens: _Most | None = None
    micro_usd: _Most | None = None


class Spent(Wire):
    """The sum charged: counted attempts, tokens, and millionths of a US dollar."""

    attempts: Count = 0
    tokens: Count = 0
    micro_usd: Count = 0


class Usage(Wire):
    """The usage of one call, as its provider reported it; `None` where it reported nothing.

    Of the input, the provider read `cached_tokens` from its cache and wrote `cache_write_tokens`
    to it; of these, it keeps `cache_write_1h_tokens` for an hour. Of the output,
    `reasoning_tokens` are thoughts. `cache_saved_micro_usd` is what the call would have cost
    more without caches; it is negative where writing to them cost more than was saved.
    """

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    micro_usd: Count | None = None
    cached_tokens: Annotated[Count | None, OMIT_NONE] = None
    cache_write_tokens: Annotated[Count | None, OMIT_NONE] = None
    cache_write_1h_tokens: Annotated[Count | None, OMIT_NONE] = None
    reasoning_tokens: Annotated[Count | None, OMIT_NONE] = None
    cache_saved_micro_usd: Annotated[int | None, OMIT_NONE] = None

    def plus(self, other: "Usage") -> "Usage":
        """Both together; what was not reported counts as nothing."""
        return Usage.of_all((self, other))

    @staticmethod
    def of_all(usages: Sequence["Usage"]) -> "Usage":
        """All together; what was not reported counts as nothing."""
        totals: dict[str, int | None] = {}
        for name in Usage.model_fields:
            total = sum(getattr(one, name) or 0 for one in usages)
            totals[name] = total if name in _ALWAYS_SAID else total or None
        return Usage(**totals)


_ALWAYS_SAID = frozenset({"input_tokens", "output_tokens", "micro_usd"})


class AccountState(Wire):
    """An account as an event shows it: its frozen limit and what was charged so far."""

    id: str
    limit: Budget
    spent: Spent
