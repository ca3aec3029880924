"""A record's timestamp in Kafka: milliseconds since 1970; any producer may have written it."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_MS: Final = 0  # Kafka says -1 for no time
LATEST_MS: Final = 221_845_392_000_000  # the year 9000: a deadline added to it is still a date

_MILLISECOND: Final = timedelta(milliseconds=1)
MOMENTS_MAX: Final = 64  # all records of a batch may have one, and a hundred thousand are held


def bounded_ms(milliseconds: int) -> int:
    """The nearest time that dates and sums with them can hold."""
    return min(max(milliseconds, EARLIEST_MS), LATEST_MS)


def milliseconds(at: datetime) -> int:
    """The whole milliseconds since 1970; not by `timestamp()`, whose float rounds some down."""
    return (at - EPOCH) // _MILLISECOND


@lru_cache(MOMENTS_MAX)
def moment(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as a time in UTC, moved into the range that sums can hold."""
    return datetime.fromtimestamp(bounded_ms(milliseconds) / 1000, UTC)
