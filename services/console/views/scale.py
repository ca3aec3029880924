"""Round scales and readable ticks for the axes of charts; pure."""

from dataclasses import dataclass

from services.console.views.units import MINUTE_MS, Unit, tick_text
from services.operators.dead_letters.moment import as_text

_TOPS = (1, 2, 4, 6, 8, 10)
_STEPS_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720)
_DAY_MS = 24 * 60 * MINUTE_MS
_TICKS_MAX = 8


@dataclass(frozen=True, slots=True)
class Tick:
    """A label at a place of an axis; a minor one is left out where there is little room."""

    at: float
    label: str
    is_minor: bool = False


def top_of(value: float) -> int:
    """The next of 1, 2, 4, 6, 8, 10, 20, 40 and so on: a scale that does not twitch."""
    power = 1
    while True:
        for digit in _TOPS:
            if digit * power >= value:
                return digit * power
        power *= 10


def value_ticks(top: int, unit: Unit, height: float) -> tuple[Tick, ...]:
    """Nought, the top, and what is in the middle if it is whole; `at` is from above."""
    values = (0, top) if top == 1 else (0, top / 2, top)
    return tuple(Tick(height * (1 - value / top), tick_text(value, unit)) for value in values)


def time_ticks(first_ms: int, end_ms: int) -> tuple[Tick, ...]:
    """At round times of day, or days, in percent of the way; every other one is minor."""
    span_ms = max(1, end_ms - first_ms)
    steps = (minutes * MINUTE_MS for minutes in _STEPS_MINUTES)
    days_ms = -(-span_ms // (_TICKS_MAX * _DAY_MS)) * _DAY_MS
    step_ms = next((step for step in steps if span_ms <= step * _TICKS_MAX), days_ms)
    start, label = -(-first_ms // step_ms) * step_ms, time_of_day if step_ms < _DAY_MS else _day
    return tuple(
        Tick(100 * (at_ms - first_ms) / span_ms, label(at_ms), n % 2 == 1)
        for n, at_ms in enumerate(range(start, end_ms, step_ms))
    )


def _day(at_ms: int) -> str:
    return as_text(at_ms)[:10]


def time_of_day(at_ms: int) -> str:
    """Hours and minutes in UTC: `09:05`."""
    minutes = at_ms // MINUTE_MS % (24 * 60)
    return f"{minutes // 60:02}:{minutes % 60:02}"
