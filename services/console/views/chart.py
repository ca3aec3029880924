"""Charts over time as geometry that a template draws as SVG: columns, lines, bands, axes; pure.

Places across are in percent and places down in pixels, so that a chart fits any width and its
letters stay as they are. Each column is a link with its values in words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.console.views.scale import Tick, time_of_day, time_ticks, top_of, value_ticks
from services.console.views.time_range import span_pairs
from services.console.views.units import Unit, text_of

HEIGHT = 140  # of the plot, without its axis
_GAP = 0.14  # of a column's width
_PLACES = 3

Link = Callable[[tuple[tuple[str, str], ...]], str]


@dataclass(frozen=True, slots=True)
class ChartPart:
    """One rectangle of a series: from where, and how high."""

    series: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """One step of time; `label` says its values, `begin` and `end` its times in an address.

    `mark` counts what is marked above it, `band` is the series of a stripe at its foot.
    """

    x: float
    width: float
    bar_x: float
    bar_width: float
    label: str
    href: str
    begin: str
    end: str
    parts: tuple[ChartPart, ...] = ()
    mark: int = 0
    band: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a line, between the middles of two columns."""

    series: str
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Chart:
    height: int
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be seen."""
        return not self.segments and not any(column.parts for column in self.columns)


@dataclass(frozen=True, slots=True)
class Axis:
    """The steps of time that a page's charts share, and where a click on one of them leads."""

    starts_ms: Sequence[int]
    step_ms: int
    link: Link

    @property
    def ticks(self) -> tuple[Tick, ...]:
        if not self.starts_ms:
            return ()
        return time_ticks(self.starts_ms[0], self.starts_ms[-1] + self.step_ms)

    def column(self, number: int, text: str, parts: tuple[ChartPart, ...] = ()) -> Column:
        width = 100 / len(self.starts_ms)
        begin_ms = self.starts_ms[number]
        pairs = span_pairs(begin_ms, begin_ms + self.step_ms)
        times = f"{time_of_day(begin_ms)}–{time_of_day(begin_ms + self.step_ms)}"
        return Column(
            round(number * width, _PLACES),
            round(width, _PLACES),
            round((number + _GAP / 2) * width, _PLACES),
            round(width * (1 - _GAP), _PLACES),
            f"{times}: {text}",
            self.link(pairs),
            pairs[0][1],
            pairs[1][1],
            parts,
        )


def columns(
    axis: Axis,
    series: Mapping[str, Sequence[float]],
    unit: Unit = "count",
    *,
    words: Mapping[str, str] | None = None,
    height: int = HEIGHT,
) -> Chart:
    """Stacked columns, the first series below; `words` name the series."""
    count = len(axis.starts_ms)
    sums = [sum(values[number] for values in series.values()) for number in range(count)]
    top = top_of(max(sums, default=0))
    made = []
    for number in range(count):
        base, parts = float(height), []
        for name, values in series.items():
            size = height * values[number] / top
            if size:
                base -= size
                parts.append(ChartPart(name, round(base, 2), round(size, 2)))
        values_now = {name: values[number] for name, values in series.items()}
        made.append(axis.column(number, series_text(values_now, unit, words), tuple(parts)))
    return Chart(height, tuple(made), (), value_ticks(top, unit, height), axis.ticks)


def lines(
    axis: Axis,
    series: Mapping[str, Sequence[float | None]],
    unit: Unit,
    *,
    height: int = HEIGHT,
) -> Chart:
    """One line for each series, broken where there is no value."""
    known = [value for values in series.values() for value in values if value is not None]
    top = top_of(max(known, default=0))
    count = len(axis.starts_ms)
    segments = []
    for name, values in series.items():
        points = [None if v is None else height * (1 - v / top) for v in values]
        for n, y in enumerate(points):
            if y is None:
                continue
            after = points[n + 1] if n + 1 < count else None
            is_alone = after is None and (n == 0 or points[n - 1] is None)
            middle, width = (n + 0.5) * 100 / count, 100 / count
            if after is not None:
                segments.append(_segment(name, middle, y, middle + width, after))
            elif is_alone:
                segments.append(_segment(name, middle - width / 3, y, middle + width / 3, y))
    made = [
        axis.column(n, series_text({name: v[n] for name, v in series.items()}, unit))
        for n in range(count)
    ]
    return Chart(height, tuple(made), tuple(segments), value_ticks(top, unit, height), axis.ticks)


def series_text(
    values: Mapping[str, float | None], unit: Unit, words: Mapping[str, str] | None = None
) -> str:
    """The values of a column in words; what is nought is left out."""
    names = words or {}
    parts = [
        f"{names.get(name, name.replace('_', ' '))} {text_of(value, unit)}"
        for name, value in values.items()
        if value
    ]
    return ", ".join(parts) or "nothing"


def _segment(name: str, x1: float, y1: float, x2: float, y2: float) -> Segment:
    return Segment(name, round(x1, _PLACES), round(y1, 2), round(x2, _PLACES), round(y2, 2))
