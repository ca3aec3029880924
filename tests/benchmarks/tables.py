"""Figures as tables, on a screen and in Markdown: a row for each case and contestant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tests.benchmarks.figures import Figure

COLUMNS_MAX = 14


@dataclass(frozen=True, slots=True)
class Sheet:
    """A heading and rows of the same length."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]


def sheet(figures: Iterable[Figure]) -> Sheet:
    """One column for each name of a figure; the rows of a case together, curves left out."""
    shown = [figure for figure in figures if figure.value is not None]
    names = list(dict.fromkeys(figure.name for figure in shown))
    found = {(f.case, f.who, f.name): f for f in shown}
    cases = list(dict.fromkeys(figure.case for figure in shown))
    lines = sorted(
        dict.fromkeys((figure.case, figure.who) for figure in shown),
        key=lambda line: cases.index(line[0]),
    )
    rows = [
        (case, who, *(_cell(found.get((case, who, name))) for name in names)) for case, who in lines
    ]
    return Sheet(("case", "who", *names), rows)


def show(console: Console, figures: Sequence[Figure]) -> None:
    """On the screen, where not too many columns fit."""
    made = sheet(figures)
    if len(made.heading) > COLUMNS_MAX:
        rows = [(f.case, f.who, f.name, _cell(f)) for f in figures if f.value is not None]
        made = Sheet(("case", "who", "figure", "value"), rows)
    table = Table(*made.heading)
    for row in made.rows:
        table.add_row(*row)
    console.print(table)


def markdown(figures: Iterable[Figure]) -> str:
    made = sheet(figures)
    lines = [made.heading, ["---"] * len(made.heading), *made.rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def written(value: float) -> str:
    """Three digits that count, and no more."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _cell(figure: Figure | None) -> str:
    if figure is None or figure.value is None:
        return ""
    text = f"{written(figure.value)} {figure.unit}".strip()
    if figure.holds is None:
        return text
    return f"{text} ({'meets' if figure.holds else 'misses'} {figure.bar})"
