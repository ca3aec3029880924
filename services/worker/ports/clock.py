"""The port to the time: this worker's, and the broker's."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time, for events; the event loop's own time serves waits."""

    def now(self) -> datetime:
        """The current moment, in UTC."""
        ...


class MeasuredClock(Clock, Protocol):
    """A clock that keeps the broker's time, from the times that the broker gives."""

    @property
    def is_measured(self) -> bool:
        """Whether the broker's time is known well enough to decide by it."""
        ...

    def steady_s(self) -> float:
        """Seconds on a clock that is never set, from an arbitrary moment."""
        ...

    def set_broker_time(self, broker_ms: int, before_s: float, after_s: float) -> None:
        """The broker's clock showed so many milliseconds between two moments of `steady_s`."""
        ...
