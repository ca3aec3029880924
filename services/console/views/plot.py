"""The geometry of the plots, drawn on the server: bars of stacked parts; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 120  # in units of the drawing, which is stretched to its place
_GAP = 0.15  # of a bar's step


@dataclass(frozen=True, slots=True)
class Part:
    """One rectangle: its series, its place and size in units of the drawing."""

    series: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Plot:
    """All rectangles, and the value that the full height stands for."""

    parts: tuple[Part, ...]
    top: int


def stacked(series: Mapping[str, Sequence[int]]) -> Plot:
    """One bar for each position of the series (of equal lengths), the first one below."""
    sums = [sum(values) for values in zip(*series.values(), strict=True)]
    top = _round_up(max(sums, default=0))
    step = WIDTH / max(1, len(sums))
    parts = []
    for position in range(len(sums)):
        base = float(HEIGHT)
        for name, values in series.items():
            height = HEIGHT * values[position] / top
            if height:
                base -= height
                x = (position + _GAP / 2) * step
                parts.append(
                    Part(
                        name,
                        round(x, 2),
                        round(base, 2),
                        round(step * (1 - _GAP), 2),
                        round(height, 2),
                    )
                )
    return Plot(tuple(parts), top)


def _round_up(value: int) -> int:
    """The next of 1, 2, 5, 10, 20, 50 and so on: a scale that does not twitch."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= value:
                return digit * power
        power *= 10
