"""The time range of a page, from its address: a range by name, or from and to; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from services.console.views.filters import FilterFault
from services.console.views.units import KEPT_MINUTES, MINUTE_MS
from services.operators.dead_letters.moment import EXAMPLES, as_text, moment_ms

DAY_MS = 86_400_000
RANGES: Mapping[str, int | None] = MappingProxyType(
    {"15m": 15, "1h": 60, "6h": 360, "24h": KEPT_MINUTES, "today": None}  # minutes
)
TITLES: Mapping[str, str] = MappingProxyType(
    {"15m": "15 min", "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "today": "Today"}
)
_SPOKEN: Mapping[str, str] = MappingProxyType(
    {
        "15m": "the last 15 minutes",
        "1h": "the last hour",
        "6h": "the last 6 hours",
        "24h": "the last 24 hours",
        "today": "today",
    }
)
DEFAULT = "1h"
NAMES = ("range", "from", "to")
STEP_MINUTES = (1, 2, 5, 10, 15, 20, 30)
STEPS_MAX = 60


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From a minute to a minute, both included; `name` is None where times are given."""

    name: str | None
    minutes: int
    end_ms: int

    @property
    def step_minutes(self) -> int:
        """Of one column of a chart."""
        return next((step for step in STEP_MINUTES if self.minutes <= step * STEPS_MAX), 30)

    @property
    def _step_ms(self) -> int:
        return self.step_minutes * MINUTE_MS

    @property
    def charted_end_ms(self) -> int:
        """Where the last column ends: columns begin at round times, so that they stay."""
        return (self.end_ms // self._step_ms + 1) * self._step_ms

    @property
    def first_ms(self) -> int:
        """Where the first column begins."""
        if self.name is not None:
            return self.charted_end_ms - -(-self.minutes // self.step_minutes) * self._step_ms
        first_ms = (self.end_ms // MINUTE_MS - self.minutes + 1) * MINUTE_MS
        return first_ms // self._step_ms * self._step_ms

    @property
    def steps(self) -> int:
        """How many columns a chart has."""
        return (self.charted_end_ms - self.first_ms) // self._step_ms

    @property
    def charted_minutes(self) -> int:
        """The whole steps that hold the range."""
        return self.steps * self.step_minutes

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """As parameters of an address."""
        if self.name is not None:
            return (("range", self.name),)
        return span_pairs(self.first_ms, self.charted_end_ms)

    @property
    def title(self) -> str:
        if self.name is not None:
            return _SPOKEN[self.name]
        begin, end = as_text(self.first_ms), as_text(self.charted_end_ms)
        day = "" if end[:10] == begin[:10] else f"{end[:10]} "
        return f"{begin[:10]} {begin[11:16]} to {day}{end[11:16]}"


def span_pairs(first_ms: int, end_ms: int) -> tuple[tuple[str, str], ...]:
    """The parameters of a page that is about this time alone."""
    return (("from", _second(first_ms)), ("to", _second(end_ms)))


def time_range_of(query: Mapping[str, str], now_ms: int) -> TimeRange | FilterFault:
    """What `range`, or `from` and `to`, say; the default where none of them is given."""
    given = [name for name in ("from", "to") if name in query]
    if "range" in query and given:
        return FilterFault("Give a range, or from and to.")
    if given:
        return _between(query.get("from"), query.get("to"), now_ms)
    name = query.get("range", DEFAULT)
    if name not in RANGES:
        return FilterFault(f"range={name!r} is none of {', '.join(RANGES)}.")
    minutes = RANGES[name] or (now_ms % DAY_MS) // MINUTE_MS + 1
    return TimeRange(name, minutes, now_ms)


def _between(begin: str | None, end: str | None, now_ms: int) -> TimeRange | FilterFault:
    times = []
    for name, text, default in (("from", begin, now_ms - 60 * MINUTE_MS), ("to", end, now_ms)):
        at_ms = default if text is None else moment_ms(text, now_ms)
        if at_ms is None:
            return FilterFault(f"{name}={text!r} is not a time such as {EXAMPLES}.")
        times.append(at_ms)
    from_ms, to_ms = times
    if from_ms < now_ms - DAY_MS - STEP_MINUTES[-1] * MINUTE_MS:  # a chart begins at a round time
        return FilterFault("Only the last 24 hours are counted: give a later `from`.")
    if from_ms >= to_ms:
        return FilterFault("The time `from` must be before `to`.")
    to_ms = min(to_ms, now_ms + MINUTE_MS) if from_ms < now_ms else to_ms
    last = (to_ms - 1) // MINUTE_MS
    minutes = min(KEPT_MINUTES, last - from_ms // MINUTE_MS + 1)
    return TimeRange(None, max(1, minutes), last * MINUTE_MS)


def _second(at_ms: int) -> str:
    return f"{as_text(at_ms)[:19]}Z"
