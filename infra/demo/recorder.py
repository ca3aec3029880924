"""The demo's board as it was over time, for docs/demo.svg: `python -m infra.demo FILE`."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from infra.demo.board import Row
from infra.demo.screen import Screen, table

GAP_S_MAX = 1.2  # longer waits are cut: nothing moves meanwhile
LAST_S = 5.0  # how long the last picture stays
CHAR_PX, LINE_PX, FONT_PX, MARGIN_PX = 7.2, 17, 12, 14
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" \
font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{font}" \
role="img" aria-label="{label}">
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style in one place."""

    line: int
    column: int
    text: str
    colour: str
    is_bold: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A run, and the seconds from and until which it is to be seen."""

    run: Run
    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Recording:
    """All that is shown within `lasts_s` seconds, on so many lines and columns."""

    shown: Sequence[Shown]
    lines: int
    columns: int
    lasts_s: float


def recorded(pictures: Iterable[tuple[float, RenderableType]], columns: int) -> Recording:
    """A recording of pictures and the seconds at which they came; long waits are shortened."""
    console = Console(
        width=columns, force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    open_since: dict[Run, float] = {}
    shown: list[Shown] = []
    lines, at_s, came_s = 0, 0.0, None
    for now_s, picture in pictures:
        at_s += 0.0 if came_s is None else min(now_s - came_s, GAP_S_MAX)
        came_s = now_s
        rendered = console.render_lines(picture, pad=False)
        lines = max(lines, len(rendered))
        runs = set(_runs(rendered))
        shown += [Shown(run, since, at_s) for run, since in _gone(open_since, runs)]
        open_since = {run: open_since.get(run, at_s) for run in runs}
    lasts_s = at_s + LAST_S
    shown += [Shown(run, since, lasts_s) for run, since in open_since.items()]
    in_order = sorted(shown, key=lambda one: (one.run.line, one.run.column, one.from_s))
    return Recording(in_order, lines, columns, lasts_s)


def _gone(open_since: Mapping[Run, float], runs: set[Run]) -> Iterator[tuple[Run, float]]:
    return ((run, since) for run, since in open_since.items() if run not in runs)


def _runs(lines: Sequence[Sequence[Segment]]) -> Iterator[Run]:
    for number, segments in enumerate(lines):
        column = 0
        for segment in segments:
            text, style = segment.text.rstrip("\n"), segment.style or Style.null()
            if stripped := text.strip():
                indent = len(text) - len(text.lstrip())
                yield Run(number, column + indent, stripped, _colour(style), bool(style.bold))
            column += len(text)


def _colour(style: Style) -> str:
    if style.dim or style.color is None:
        return "#8b949e" if style.dim else "#e6edf3"
    return style.color.get_truecolor(DIMMED_MONOKAI).hex


def svg(recording: Recording, label: str) -> str:
    """The document; a viewer that moves nothing shows the last picture."""
    width = recording.columns * CHAR_PX + 2 * MARGIN_PX
    height = recording.lines * LINE_PX + 2 * MARGIN_PX
    head = _HEAD.format(width=width, height=height, font=FONT_PX, label=escape(label))
    return head + "".join(_text(one, recording.lasts_s) for one in recording.shown) + "</svg>\n"


def _text(one: Shown, lasts_s: float) -> str:
    run = one.run
    x, y = MARGIN_PX + run.column * CHAR_PX, MARGIN_PX + (run.line + 0.8) * LINE_PX
    weight = ' font-weight="bold"' if run.is_bold else ""
    place = f'<text x="{x:.1f}" y="{y:.1f}" fill="{run.colour}"{weight}'
    place += f' textLength="{len(run.text) * CHAR_PX:.1f}" xml:space="preserve"'
    if one.from_s <= 0 and one.until_s >= lasts_s:
        return f"{place}>{escape(run.text)}</text>\n"
    hidden = "" if one.until_s >= lasts_s else ' visibility="hidden"'
    return f"{place}{hidden}>{escape(run.text)}{_animation(one, lasts_s)}</text>\n"


def _animation(one: Shown, lasts_s: float) -> str:
    """When it is to be seen, for ever again; the last ones stay to the end."""
    changes = [(0.0, "hidden")] if one.from_s > 0 else []
    changes.append((one.from_s, "visible"))
    if one.until_s < lasts_s:
        changes.append((one.until_s, "hidden"))
    values = ";".join(value for _, value in changes)
    times = ";".join(f"{at_s / lasts_s:.4f}".rstrip("0").rstrip(".") for at_s, _ in changes)
    return (
        f'<animate attributeName="visibility" calcMode="discrete" dur="{lasts_s:.1f}s" '
        f'repeatCount="indefinite" values="{values}" keyTimes="{times}"/>'
    )


COLUMNS = 100
PICTURES_EVERY_S = 1.0  # while nothing happens
LABEL = "make demo: requests of all kinds, each with its one outcome"


class Recorder:
    """A screen that shows what another one shows, and writes it down."""

    def __init__(self, inner: Screen, file: Path) -> None:
        self._inner, self._file = inner, file
        self._seen: list[tuple[float, Sequence[Row]]] = []
        self._began = time.monotonic()

    def show(self, rows: Sequence[Row]) -> None:
        """Show the rows as they are now."""
        self._seen.append((time.monotonic() - self._began, rows))
        self._inner.show(rows)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._inner.__exit__(*raised)
        if raised[0] is None:
            text = svg(recorded(_pictures(self._seen), COLUMNS), LABEL)
            self._file.write_text(text, encoding="utf-8")


def _pictures(
    seen: Sequence[tuple[float, Sequence[Row]]],
) -> Iterator[tuple[float, RenderableType]]:
    """One for each moment in which something has changed, at most one a second."""
    last_s = float("-inf")
    for number, (at_s, rows) in enumerate(seen):
        if at_s - last_s >= PICTURES_EVERY_S or number == len(seen) - 1:
            last_s = at_s
            yield at_s, Group(Text("$ make demo", "bold"), table(rows, at_s))
