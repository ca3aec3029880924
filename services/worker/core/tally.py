"""What a worker counts that leaves no event behind."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Totals since the worker's start, over all of its lanes; `held` is of this moment."""

    duplicates: int = 0
    forwarded: int = 0
    unread: int = 0  # requests that retention deleted before they were read
    held: int = 0  # retries in memory
