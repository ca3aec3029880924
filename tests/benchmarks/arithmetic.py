"""What figures are made of: percentiles, integrals, ratios; pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in seconds of any one clock."""

    begin: float
    end: float

    @property
    def length_s(self) -> float:
        return self.end - self.begin

    def overlap_s(self, other: "Span") -> float:
        """How long both are under way."""
        return max(0.0, min(self.end, other.end) - max(self.begin, other.begin))


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed; not a number of none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def in_flight_share(calls: Iterable[Span], window: Span, limit: int) -> float:
    """The integral of calls in flight over the window, as a share of `limit` all the time."""
    return math.fsum(call.overlap_s(window) for call in calls) / (limit * window.length_s)


def in_flight_over_time(calls: Sequence[Span], step_s: float) -> list[tuple[float, float]]:
    """Mean calls in flight in each step, as (seconds since the first call, calls)."""
    if not calls:
        return []
    begin, end = min(call.begin for call in calls), max(call.end for call in calls)
    sums = [0.0] * (math.floor((end - begin) / step_s) + 1)
    for call in calls:
        first = math.floor((call.begin - begin) / step_s)
        last = math.floor((call.end - begin) / step_s)
        for n in range(first, last + 1):
            step = Span(begin + n * step_s, begin + (n + 1) * step_s)
            sums[n] += call.overlap_s(step)
    return [((n + 0.5) * step_s, total / step_s) for n, total in enumerate(sums)]


def first_at_least(calls: Iterable[Span], many: int, since: float) -> float:
    """The first moment from `since` on at which so many are in flight; not a number if never."""
    changes = [change for call in calls for change in ((call.begin, 1), (call.end, -1))]
    in_flight = 0
    for at, change in sorted(changes):
        in_flight += change
        if in_flight >= many and at >= since:
            return at
    return math.nan
