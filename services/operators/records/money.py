"""Amounts of money as people write and read them, in dollars, and as budgets count them; pure."""

import re

from services.operators.records.within_limits import amount

MICRO = 1_000_000  # millionths of a dollar in a dollar
_FINE = 100  # below that, four places of a dollar would show nothing

_DOLLARS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)


def micro_usd_of(dollars: str) -> int | None:
    """`0.25` is 250,000 millionths; None for what is not such an amount."""
    if not _DOLLARS.fullmatch(dollars):
        return None
    whole, _, part = dollars.partition(".")
    return int(whole) * MICRO + int(part.ljust(6, "0"))


def dollars_of(micro_usd: int) -> str:
    """With four places, or six where four would show nothing."""
    places = 6 if 0 < micro_usd < _FINE else 4
    return f"${amount(micro_usd) / MICRO:,.{places}f}"
