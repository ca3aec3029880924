"""The lanes as a grid, coloured by what stops them or their oldest request's age; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from services.console.views.units import duration

AGE_STEPS_MS = (1, 10_000, 60_000, 300_000)  # where the colour changes: idle, new, late, too late
LEVEL_WORDS = ("nothing waits", "under 10 s", "under 1 min", "under 5 min", "5 min or more")

Halt = Literal["stuck", "no-worker", "away"]
HALT_WORDS: Mapping[Halt, str] = MappingProxyType(
    {
        "stuck": "stuck",
        "no-worker": "its worker does not answer",
        "away": "waits for a profile that is unhealthy",
    }
)
_ORDER: tuple[Halt | None, ...] = ("stuck", "no-worker", "away", None)


@dataclass(frozen=True, slots=True)
class LaneCell:
    """One lane; `level` is 0 (nothing waits) to 4, `age_ms` that of its oldest request, if known.

    With a lag and no age something waits, and nothing more is known of it. `state` is that of its
    worker's last answer, `waits_for` what its oldest request waits for, `halt` what stops it, and
    `why` the reason in its worker's words, for operators.
    """

    partition: int
    worker: str | None
    lag: int | None
    in_flight: int
    age_ms: int | None
    openings_without_progress: int
    opened_ms: int | None
    state: str = ""
    halt: Halt | None = None
    why: str = ""
    waits_for: str = ""

    @property
    def level(self) -> int:
        if self.age_ms is None:
            return 1 if self.lag else 0
        return sum(self.age_ms >= step for step in AGE_STEPS_MS)

    @property
    def tone(self) -> str:
        """The class of its colour."""
        return f"halt-{self.halt}" if self.halt else f"age-{self.level}"

    @property
    def age(self) -> str:
        """Of its oldest request, in words."""
        if self.age_ms is None:
            return "age unknown" if self.lag else "nothing waits"
        return duration(self.age_ms)

    @property
    def short(self) -> str:
        match self.halt:
            case "stuck":
                return "stuck"
            case "no-worker":
                return "no worker"
            case _:
                return self.age if self.level else "–"

    @property
    def label(self) -> str:
        lag = "lag unknown" if self.lag is None else f"lag {self.lag:,}"
        halt = f"{HALT_WORDS[self.halt]}, " if self.halt and self.halt != "away" else ""
        oldest = "" if self.age_ms is None else f", the oldest request waits for {self.age}"
        waits = f", for {self.waits_for}" if oldest and self.waits_for else ""
        return f"Lane {self.partition}: {halt}{lag}, {self.in_flight} in flight{oldest}{waits}"


def stopped_first(cells: Sequence[LaneCell]) -> list[LaneCell]:
    """What stops a lane comes before its number."""
    return sorted(cells, key=lambda cell: (_ORDER.index(cell.halt), cell.partition))


def longest_waiting(cells: Sequence[LaneCell], count: int) -> list[LaneCell]:
    """At most so many: those that are stopped, then those that have waited longest; in order."""

    def rank(cell: LaneCell) -> tuple[int, int, int, int]:
        return _ORDER.index(cell.halt), -(cell.age_ms or 0), -cell.level, cell.partition

    return sorted(sorted(cells, key=rank)[:count], key=lambda cell: cell.partition)


def halts(cells: Sequence[LaneCell]) -> dict[Halt, str]:
    """What the legend explains beside the ages."""
    found = {cell.halt for cell in cells}
    return {halt: words for halt, words in HALT_WORDS.items() if halt in found}
