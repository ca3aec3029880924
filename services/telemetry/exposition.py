"""Counts and the gauges of this moment as Prometheus reads them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.registry import Collector

from services.telemetry.counts import Labels, Metric, Sample, Spread
from services.telemetry.metrics import METRICS

CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition(
    samples: Iterable[Sample],
    spreads: Mapping[tuple[Metric, Labels], Spread],
    metrics: Sequence[Metric] = METRICS,
) -> bytes:
    """The text of `/metrics`: every declared metric, also those without a value yet."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Moment(list(samples), spreads, metrics))
    return generate_latest(registry)


@dataclass(frozen=True, slots=True, eq=False)
class _Moment(Collector):
    samples: list[Sample]
    spreads: Mapping[tuple[Metric, Labels], Spread]
    metrics: Sequence[Metric]

    def collect(self) -> Iterator[Family]:
        samples: dict[Metric, list[tuple[Labels, float]]] = defaultdict(list)
        for metric, labels, value in self.samples:
            samples[metric].append((labels, value))
        for metric in self.metrics:
            if metric.kind == "histogram":
                yield self._histogram(metric)
                continue
            yield _family(metric.name, metric.meaning, metric, samples[metric])
            if metric.formerly:
                meaning = f"The former name of {metric.name}."
                yield _family(metric.formerly, meaning, metric, samples[metric])

    def _histogram(self, metric: Metric) -> Family:
        family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        bounds = [*(str(bound) for bound in metric.buckets), "+Inf"]
        for (of, labels), spread in self.spreads.items():
            if of is metric:
                upto = list(accumulate(spread.buckets))
                family.add_metric(
                    labels, list(zip(bounds, upto, strict=True)), sum_value=spread.total
                )
        return family


def _family(name: str, meaning: str, metric: Metric, values: list[tuple[Labels, float]]) -> Family:
    new = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = new(name, meaning, labels=metric.labels)
    if not metric.labels and not values:
        values = [((), 0.0)]
    for labels, value in values:
        family.add_metric(labels, value)
    return family
