"""Each profile over time: calls by outcome, how long they took, its breaker; pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType

from services.console.figures.outcome_charts import Figure, LegendEntry, axis_of
from services.console.state.board import AWAY, NO_ANSWER, Window
from services.console.state.health_history import HealthHistory
from services.console.state.histogram import EDGES_MS
from services.console.state.minute import ProfileCounts
from services.console.views.chart import Axis, Chart, Column, columns, lines
from services.console.views.scale import Tick
from services.console.views.units import duration, tick_text
from services.text.counted import count_text

CLASSES: Mapping[str, str] = {
    "answered": "replied, valid",
    "unusable": "replied, invalid",
    "throttled": "throttled",
    "away": "no reply or 5xx",
    "lost": "lost with its worker",
}
_UNUSABLE = frozenset({"malformed", "invalid", "truncated", NO_ANSWER})
_EDGE_STEP = 3  # buckets of a row of the heat map
CALLS_PX, LATENCY_PX = 90, 70
_NONE_REPORTED: Mapping[str, str] = MappingProxyType({})
_NO_SERVERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
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
        column = axis.column(number, _column_text(found, edges_ms))
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


def _column_text(found: Sequence[tuple[int, int]], edges_ms: Sequence[float]) -> str:
    """How many there are, and in what most of them ended."""
    if not found:
        return "nothing"
    bucket, most = max(found, key=lambda pair: pair[1])
    count = sum(count for _, count in found)
    longest = duration(edges_ms[found[-1][0]])
    usual = duration(edges_ms[bucket])
    return f"{count_text(count, 'call')}, {most:,} in up to {usual}, all in {longest}"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Totals of a profile over a time; its name is the key of its counts.

    `reported` is what workers say is wrong with it now.
    """

    name: str
    made: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    away_now: bool
    reported: str | None = None


@dataclass(frozen=True, slots=True)
class ProfileStrip:
    """All pictures of one profile; `replies` are what came back, by HTTP status where known."""

    row: ProfileRow
    calls: Figure
    latency: Chart
    heat: HeatMap
    replies: tuple[tuple[str, int], ...]
    servers: tuple[str, ...]


def profile_rows(
    window: Window, health: HealthHistory, reported: Mapping[str, str] = _NONE_REPORTED
) -> list[ProfileRow]:
    """Those that were called in this time or are unhealthy now; these first, then the busiest."""
    last, end_ms = window.steps[-1:], window.end_ms
    rows = []
    for name in {**window.total.profiles, **reported}:
        total = window.total.profiles.get(name, ProfileCounts())
        p50_ms, p95_ms = (total.took.quantile_ms(share) for share in (0.5, 0.95))
        now = [step.profiles.get(name, ProfileCounts()) for step in last]
        was_reported = health.was_unhealthy(name, window.starts_ms[-1], end_ms)
        away = any(_band(step, reported=was_reported) == "away" for step in now)
        why = reported.get(name)
        rows.append(ProfileRow(name, total.made, total.answered, p50_ms, p95_ms, away, why))
    return sorted(rows, key=lambda row: (not row.reported, not row.away_now, -row.made))


def profile_strips(
    window: Window,
    health: HealthHistory,
    reported: Mapping[str, str] = _NONE_REPORTED,
    servers: Mapping[str, tuple[str, ...]] = _NO_SERVERS,
) -> list[ProfileStrip]:
    """The same profiles over time, with the addresses of their providers."""
    axis, rows = axis_of(window, "/profiles"), profile_rows(window, health, reported)
    return [_strip(row, window, axis, health, servers.get(row.name, ())) for row in rows]


def replies(counts: ProfileCounts) -> tuple[tuple[str, int], ...]:
    """Statuses of HTTP, the most frequent first; then what has none."""
    throttled = counts.failures["throttled"]
    statuses = counts.statuses + Counter({HTTPStatus.OK.value: counts.answered})
    found = [(f"{status} {_phrase(status)}".strip(), n) for status, n in statuses.most_common()]
    found += [("throttled (429 or Retry-After)", throttled), ("no reply", counts.silent)]
    return tuple((words, n) for words, n in found if n)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def call_classes(counts: ProfileCounts) -> Mapping[str, int]:
    """By the names of CLASSES."""
    failed = counts.failures
    unusable = sum(failed[kind] for kind in _UNUSABLE)
    away = sum(failed[kind] for kind in AWAY)
    answered = max(0, counts.answered - unusable)
    rest = max(0, counts.made - answered - unusable - away - failed["throttled"])
    values = (answered, unusable, failed["throttled"], away, rest)
    return dict(zip(CLASSES, values, strict=True))


def _strip(
    row: ProfileRow,
    window: Window,
    axis: Axis,
    health: HealthHistory,
    servers: tuple[str, ...],
) -> ProfileStrip:
    steps = [step.profiles.get(row.name, ProfileCounts()) for step in window.steps]
    classes = [call_classes(step) for step in steps]
    series = {kind: [step[kind] for step in classes] for kind in CLASSES}
    calls = columns(axis, series, words=CLASSES, height=CALLS_PX)
    quantiles = {
        label: [step.took.quantile_ms(share) for step in steps]
        for label, share in (("p50", 0.5), ("p95", 0.95))
    }
    bands = [
        _band(step, reported=health.was_unhealthy(row.name, start, start + axis.step_ms))
        for step, start in zip(steps, axis.starts_ms, strict=True)
    ]
    legend = [LegendEntry(kind, CLASSES[kind], sum(series[kind])) for kind in CLASSES]
    rows = [step.took.coarse(_EDGE_STEP) for step in steps]
    edges = [*EDGES_MS[_EDGE_STEP - 1 :: _EDGE_STEP], EDGES_MS[-1]]
    return ProfileStrip(
        row,
        Figure(_banded(calls, bands), tuple(entry for entry in legend if entry.count)),
        lines(axis, quantiles, "ms", height=LATENCY_PX),
        heat_map(axis, rows, edges),
        replies(window.total.profiles.get(row.name, ProfileCounts())),
        servers,
    )


def _band(step: ProfileCounts, *, reported: bool) -> str:
    """`away`: a worker said so, or no call was answered; `shaky`: some were not."""
    away = sum(step.failures[kind] for kind in AWAY)
    if reported or (away and not step.answered):
        return "away"
    return "shaky" if away else ""


def _banded(chart: Chart, bands: list[str]) -> Chart:
    words = {"away": "; away", "shaky": "; some calls without a word", "": ""}
    made = tuple(
        replace(column, band=band, label=column.label + words[band])
        for column, band in zip(chart.columns, bands, strict=True)
    )
    return replace(chart, columns=made)
