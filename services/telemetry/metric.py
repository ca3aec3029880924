"""A metric as it is declared: one name with its labels, meaning and buckets."""

from dataclasses import dataclass
from typing import Literal

REQUEST_BUCKETS_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One name; buckets are the upper bounds of a histogram's, in the unit of its name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()
