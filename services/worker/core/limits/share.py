"""How much of what is limited one workflow may hold, so that others always find some of it free."""

from typing import Final

SHARE_FACTOR: Final = 7  # times what is free: one workflow alone holds at most seven eighths
LIMIT_MIN: Final = 4  # of fewer places none can be kept free


def has_share(held: int, free: int, limit: int) -> bool:
    """Whether one that holds `held` of `limit` may have one more while `free` are free.

    The bound falls with what is free, so that the next to come finds a place however many have
    filled theirs before, and nothing stays unused while many want a little each.
    """
    return free > 0 and (limit < LIMIT_MIN or held < min(SHARE_FACTOR, limit - 1) * free)
