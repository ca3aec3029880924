"""Numbers and times of events, cut to what can be calculated with: events have no upper limit.

A provider or a client may write any whole number and any date. Beyond these limits Python's
floats and dates raise OverflowError, so what is shown is cut to them; pure.
"""

from datetime import UTC, datetime, timedelta, tzinfo

AMOUNT_MAX = 10**18  # tokens, millionths of a dollar, milliseconds, attempts
_MS = timedelta(milliseconds=1)
_DAY = timedelta(days=1)  # more than any zone differs from UTC
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def amount(number: int) -> int:
    """The number, or the largest that is shown."""
    return min(number, AMOUNT_MAX)


def moved(at: datetime, ms: int) -> datetime:
    """So many milliseconds later, or earlier if negative, within the years 1 to 9999."""
    earliest, latest = -((at - _FIRST) // _MS), (_LAST - at) // _MS
    return at + max(earliest, min(ms, latest)) * _MS


def time_in(zone: tzinfo, at: datetime) -> datetime:
    """The time in a zone; within a day of the calendar's ends, cut to it."""
    return max(_FIRST + _DAY, min(at, _LAST - _DAY)).astimezone(zone)
