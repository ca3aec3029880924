"""Counters since the start, by metric and labels: cheap to increment, read on demand."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

REQUEST_BUCKETS_S = (
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0),
    *(43_200.0, 86_400.0, 172_800.0, 518_400.0),  # the longest `ttl_s`, of a run
)


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One name; buckets are the upper bounds of a histogram's, in the unit of its name.

    `formerly` is its name in the version before, which is served beside the new one.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()
    formerly: str | None = None


Labels = tuple[str, ...]
Sample = tuple[Metric, Labels, float]


@dataclass(slots=True)
class Spread:
    """A histogram of one set of labels: how many fell into each bucket, the last without end."""

    buckets: list[int]
    total: float = 0.0


@dataclass(slots=True)
class Counts:
    """Not for several threads: a worker has one event loop."""

    totals: dict[tuple[Metric, Labels], float] = field(default_factory=lambda: defaultdict(float))
    spreads: dict[tuple[Metric, Labels], Spread] = field(default_factory=dict)

    def add(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """Count; as many labels as the metric has, in its order."""
        self.totals[metric, labels] += by

    def observe(self, metric: Metric, *labels: str, value: float) -> None:
        """Put a value into its bucket."""
        spread = self.spreads.get((metric, labels))
        if spread is None:
            spread = Spread([0] * (len(metric.buckets) + 1))
            self.spreads[metric, labels] = spread
        spread.buckets[bisect_left(metric.buckets, value)] += 1
        spread.total += value

    def samples(self) -> Iterable[Sample]:
        for (metric, labels), total in self.totals.items():
            yield metric, labels, total
