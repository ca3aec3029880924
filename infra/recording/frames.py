"""A terminal's content over time: each run of characters with its place and times; pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI

GAP_S_MAX = 1.2  # longer waits are cut: nothing moves meanwhile
LAST_S = 5.0  # how long the last picture stays


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
