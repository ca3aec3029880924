"""How long calls took, over time: cells that are darker the more calls took so long; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from services.console.views.chart import Axis, Column
from services.console.views.scale import Tick
from services.console.views.units import duration, tick_text
from services.console.views.words import count_text

LEVELS = 6
ROW_PX, ROW_PX_MAX = 20, 34  # of a row: few of them are higher
HEIGHT_PX = 200  # of few rows together


@dataclass(frozen=True, slots=True)
class Cell:
    """One rectangle; `level` is 1 to LEVELS."""

    x: float
    y: float
    width: float
    level: int


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Columns of time, rows of durations, the longest above."""

    height: int
    columns: tuple[Column, ...]
    row_px: int
    cells: tuple[Cell, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not self.cells


def heat_map(axis: Axis, counts: Sequence[Sequence[int]], edges_ms: Sequence[float]) -> HeatMap:
    """`counts` by step and bucket; `edges_ms` are the buckets' upper ends."""
    used = [n for n in range(len(edges_ms)) if any(step[n] for step in counts)]
    first, last = (used[0], used[-1]) if used else (0, 0)
    rows = last - first + 1
    row_px = min(ROW_PX_MAX, max(ROW_PX, HEIGHT_PX // rows))
    highest = max((count for step in counts for count in step), default=0)
    cells, columns = [], []
    for number, step in enumerate(counts):
        found = [(n, step[n]) for n in range(first, last + 1) if step[n]]
        column = axis.column(number, _told(found, edges_ms))
        columns.append(column)
        cells += [
            Cell(column.x, (last - n) * row_px, column.width, _level(count, highest))
            for n, count in found
        ]
    every = max(1, rows // 5)
    ticks = tuple(
        Tick((last - n) * row_px + (row_px - ROW_PX) / 2, tick_text(edges_ms[n], "ms"))
        for n in range(first, last + 1, every)
    )
    return HeatMap(rows * row_px, tuple(columns), row_px, tuple(cells), ticks, axis.ticks)


def _level(count: int, highest: int) -> int:
    """By the logarithm, so that few calls beside many are seen."""
    return 1 + min(LEVELS - 1, int(LEVELS * math.log1p(count) / math.log1p(highest) * 0.999))


def _told(found: Sequence[tuple[int, int]], edges_ms: Sequence[float]) -> str:
    """How many there are, and in what most of them ended."""
    if not found:
        return "nothing"
    bucket, most = max(found, key=lambda pair: pair[1])
    count = sum(count for _, count in found)
    longest = duration(edges_ms[found[-1][0]])
    usual = duration(edges_ms[bucket])
    return f"{count_text(count, 'call')}, {most:,} in up to {usual}, all in {longest}"
