"""What the chart's ScaledObject does: the same ratio, from `/metrics` of each worker."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Seen:
    """The sums over all workers that answered."""

    in_flight: float = 0.0
    allowed: float = 0.0
    is_throttled: bool = False

    @property
    def saturation(self) -> float | None:
        """None: nothing is known, or a provider holds calls back. Then nothing is changed."""
        return None if self.is_throttled or not self.allowed else self.in_flight / self.allowed


def seen_in(pages: Iterable[str]) -> Seen:
    """From the pages of all workers."""
    totals: dict[str, float] = {}
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return Seen(
        totals.get("answerbus_calls_in_flight", 0.0),
        totals.get("answerbus_calls_allowed", 0.0),
        totals.get("answerbus_profile_throttled", 0.0) > 0,
    )


@dataclass
class Autoscaler:
    """As many workers as bring the ratio to the target; fewer only after a while, one at a time."""

    most: int
    target: float = 0.7
    tolerance: float = 0.1  # as Kubernetes has it
    stable_s: float = 10.0
    _wanted: list[tuple[float, int]] = field(default_factory=list)

    def desired(self, now: float, workers: int, seen: Seen) -> int:
        """How many there should be."""
        ratio = seen.saturation
        wanted = workers
        if ratio is not None and abs(ratio / self.target - 1) > self.tolerance:
            wanted = min(max(math.ceil(workers * ratio / self.target), 1), self.most)
        self._wanted = [*((at, n) for at, n in self._wanted if at > now - self.stable_s)]
        self._wanted.append((now, wanted))
        if wanted >= workers:
            return wanted
        return max(workers - 1, *(n for _, n in self._wanted))
