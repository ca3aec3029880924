"""The one place of the worker that reads the time of day."""

from datetime import UTC, datetime


class SystemClock:
    """See ports.Clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the clock
