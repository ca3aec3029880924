"""Amounts of money as people write them, in dollars, and as budgets count them; pure."""

import re

MICRO = 1_000_000  # millionths of a dollar in a dollar

_DOLLARS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)


def micro_usd_of(dollars: str) -> int | None:
    """`0.25` is 250,000 millionths; None for what is not such an amount."""
    if not _DOLLARS.fullmatch(dollars):
        return None
    whole, _, part = dollars.partition(".")
    return int(whole) * MICRO + int(part.ljust(6, "0"))
