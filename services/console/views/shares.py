"""A whole and its parts as one bar across; and a small row of bars beside a number; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.console.views.units import share

_PLACES = 3


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a bar, in percent of its width."""

    series: str
    x: float
    width: float
    label: str
    href: str | None = None


def shares(parts: Sequence[tuple[str, str, int, str | None]]) -> tuple[Share, ...]:
    """From (series, name, count, link); what is nought is left out."""
    whole, at, found = sum(count for _, _, count, _ in parts), 0.0, []
    for series, name, count, href in parts:
        if count:
            width = 100 * count / whole
            label = f"{name} {count:,} ({share(count, whole)})"
            found.append(Share(series, round(at, _PLACES), round(width, _PLACES), label, href))
            at += width
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Spark:
    """One bar of a row, in percent of width and height."""

    x: float
    width: float
    y: float
    height: float


def sparks(values: Sequence[float], bars_max: int = 30) -> tuple[Spark, ...]:
    """The course of a value, in at most so many bars."""
    size = -(-len(values) // bars_max) or 1
    sums = [sum(values[n : n + size]) for n in range(0, len(values), size)]
    top, width = max(sums, default=0), 100 / max(1, len(sums))
    if not top:
        return ()
    return tuple(
        Spark(
            round(n * width, _PLACES),
            round(width * 0.8, _PLACES),
            round(100 - 100 * value / top, 2),
            round(100 * value / top, 2),
        )
        for n, value in enumerate(sums)
        if value
    )
