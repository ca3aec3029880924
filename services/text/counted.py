"""Counts with their noun, as people read them."""


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """`1 request`, `2,000 requests`; `plural` where it is not the noun with an "s"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
