"""The distance between a machine's clock and the broker's, and its wording."""

OFFSET_S_MAX = 300.0  # a worker corrects what it measures; TLS, logs and people cannot


def clock_problem(ahead_s: float | None) -> str | None:
    """The problem of a clock so far ahead of the broker's; None if unknown."""
    if ahead_s is None or abs(ahead_s) <= OFFSET_S_MAX:
        return None
    which = "ahead of" if ahead_s > 0 else "behind"
    return (
        f"the clock of this machine is {abs(ahead_s):,.0f} s {which} the broker's, and "
        f"{OFFSET_S_MAX:.0f} s are the most: set it, and keep it right with NTP"
    )
