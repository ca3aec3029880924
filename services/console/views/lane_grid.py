"""The lanes as a grid that is coloured by the age of their oldest request; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.console.views.units import duration

AGE_STEPS_MS = (1, 10_000, 60_000, 300_000)  # where the colour changes: idle, new, late, too late
LEVEL_WORDS = ("nothing waits", "under 10 s", "under 1 min", "under 5 min", "5 min or more")


@dataclass(frozen=True, slots=True)
class LaneCell:
    """One lane; `level` is 0 (nothing waits) to 4, `age_ms` that of its oldest request, if known.

    With a lag and no age something waits, and nothing more is known of it.
    """

    partition: int
    worker: str | None
    lag: int | None
    in_flight: int
    age_ms: int | None
    openings_without_progress: int
    opened_ms: int | None

    @property
    def level(self) -> int:
        if self.age_ms is None:
            return 1 if self.lag else 0
        return sum(self.age_ms >= step for step in AGE_STEPS_MS)

    @property
    def age(self) -> str:
        """Of its oldest request, in words."""
        if self.age_ms is None:
            return "age unknown" if self.lag else "nothing waits"
        return duration(self.age_ms)

    @property
    def label(self) -> str:
        lag = "lag unknown" if self.lag is None else f"lag {self.lag:,}"
        oldest = "" if self.age_ms is None else f", the oldest request waits for {self.age}"
        return f"Lane {self.partition}: {lag}, {self.in_flight} in flight{oldest}"


def longest_waiting(cells: Sequence[LaneCell], count: int) -> list[LaneCell]:
    """At most so many, those whose oldest request has waited longest, in their order."""
    oldest = sorted(cells, key=lambda cell: (-(cell.age_ms or 0), -cell.level, cell.partition))[
        :count
    ]
    return sorted(oldest, key=lambda cell: cell.partition)
