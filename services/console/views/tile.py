"""One number that matters, with its course, its change and whether it is in order; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from services.console.views.shares import Spark, sparks
from services.console.views.units import Unit, text_of

Level = Literal["plain", "good", "warn", "bad"]

AGE_WARN_MS, AGE_BAD_MS = 60_000, 300_000  # of the oldest request that waits
DEAD_WARN, DEAD_BAD = 0.01, 0.05  # of all that ended


@dataclass(frozen=True, slots=True)
class Tile:
    """`change` compares with the same time before; `note` says more in small letters."""

    name: str
    value: str
    level: Level = "plain"
    note: str = ""
    change: str = ""
    course: tuple[Spark, ...] = ()
    series: str = "plain"
    href: str | None = None


def level_of(value: float, warn: float, bad: float) -> Level:
    """By two thresholds."""
    if value >= bad:
        return "bad"
    return "warn" if value >= warn else "good"


def change_text(now: float, before: float, unit: Unit = "count") -> str:
    """How a value differs from that of the time before, in percent where that says something."""
    if now == before:
        return "unchanged"
    sign = "+" if now > before else "−"
    if before and abs(now - before) / before < 10:
        percent = 100 * abs(now - before) / before
        return f"{sign}{percent:.0f} %" if percent >= 1 else "unchanged"
    return f"{sign}{text_of(abs(now - before), unit)}"


def course(values: Sequence[float]) -> tuple[Spark, ...]:
    """As bars behind a number."""
    return sparks(values)
