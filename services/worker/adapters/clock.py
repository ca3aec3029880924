"""The only clock of the worker: an estimate of the broker's time."""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from answerbus.broker_time import moment
from services.worker.core.broker_time import ClockOffset, measured, narrowed

PRECISE_S = 1.0  # a slower answer is too vague to decide by
HELD_S_MAX = 1.0  # a correction backwards is waited out; what is more is a clock that was set


def _steady_s() -> float:
    """Seconds on a clock that is never set, and that goes on while the machine is suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def _wall_s() -> float:
    return time.time()


class SystemClock:
    """The clock of this machine; see ports.Clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the clock


class BrokerClock:
    """The broker's time, counted on by a clock that is never set; see ports.MeasuredClock.

    Deadlines and ages count from when the broker appended a record, so that its clock decides. The
    clock of this machine is used only until the broker's time is known for the first time.
    """

    def __init__(
        self, wall: Callable[[], float] = _wall_s, steady: Callable[[], float] = _steady_s
    ) -> None:
        self._wall, self._steady = wall, steady
        self._distance: ClockOffset | None = None
        self._last_s = 0.0

    def now(self) -> datetime:
        """In whole milliseconds, as records have them, rounded down: nothing is due too soon.

        It does not go back for a correction: what was over must not be to come again.
        """
        distance = self._distance
        seconds = self._wall() if distance is None else self._steady() + distance.middle_s
        is_correction = 0 < self._last_s - seconds < HELD_S_MAX
        self._last_s = self._last_s if is_correction else seconds
        return moment(math.floor(self._last_s * 1000))

    def steady_s(self) -> float:
        return self._steady()

    def set_broker_time(self, broker_ms: int, before_s: float, after_s: float) -> None:
        self._distance = narrowed(self._distance, measured(broker_ms / 1000, before_s, after_s))

    @property
    def is_measured(self) -> bool:
        return self._distance is not None and self._distance.width_s <= PRECISE_S

    @property
    def age_s(self) -> float:
        """Since the broker's time was last measured."""
        return self._steady() - self._distance.at_s if self._distance else float("inf")

    @property
    def ahead_s(self) -> float | None:
        """How far this machine's clock is ahead of the broker's; None while that is not known."""
        if self._distance is None:
            return None
        return self._wall() - self._steady() - self._distance.middle_s
