"""An axis of time for one workflow, from its beginning on, with ticks at round durations; pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.console.views.scale import Tick
from services.console.views.units import duration

PLACES = 3  # of numbers in percent
_TICKS_MAX = 6
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """`span` is more than nothing."""

    begin: datetime
    span: timedelta

    def x(self, at: datetime) -> float:
        """In percent of the axis, and never beyond it."""
        return round(min(100.0, max(0.0, 100 * ((at - self.begin) / self.span))), PLACES)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Such as 0, 30 s, 1 min."""
        span_ms = self.span / _MS
        step = _step_ms(span_ms)
        count = int(span_ms // step) + 1
        return tuple(
            Tick(round(100 * n * step / span_ms, PLACES), duration(n * step) if n else "0")
            for n in range(count)
        )


def _step_ms(span_ms: float) -> float:
    """A round one: in seconds, minutes and hours as clocks have them."""
    for unit, digits in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 3, 6, 12)),
    ):
        for digit in digits:
            if span_ms <= unit * digit * _TICKS_MAX:
                return unit * digit
    days = 1
    while span_ms > days * 86_400_000 * _TICKS_MAX:
        days *= 2
    return days * 86_400_000
