"""Durations and times as the pages write them; pure."""

from datetime import UTC, datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SECONDS_MAX = 120  # written as seconds, which say more than "1 min"
_DAY_MS = 86_400_000


def age_text(seconds: float) -> str:
    """How long, in the largest unit that says enough."""
    whole = max(0, int(seconds))
    if whole < _SECONDS_MAX:
        return f"{whole} s"
    size, unit = next((size, unit) for size, unit in _UNITS if whole >= size)
    return f"{whole // size} {unit}"


def clock_text(at_ms: int, now_ms: int) -> str:
    """The time of day in UTC, with its date where that is not within a day."""
    form = "%H:%M UTC" if abs(now_ms - at_ms) < _DAY_MS else "%Y-%m-%d %H:%M UTC"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)
