"""Figures as tables, on a screen and in Markdown."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from tests.benchmarks.figures import Figure

COLUMNS = ("case", "who", "figure", "value", "bar", "")


def show(console: Console, figures: Iterable[Figure]) -> None:
    """A table on the screen."""
    table = Table(*COLUMNS)
    for row in rows(figures):
        table.add_row(*row)
    console.print(table)


def rows(figures: Iterable[Figure]) -> list[Sequence[str]]:
    """One row a figure; curves are left out."""
    return [
        (
            figure.case,
            figure.who,
            figure.name,
            f"{written(figure.value)} {figure.unit}".strip(),
            str(figure.bar or ""),
            {None: "", True: "met", False: "missed"}[figure.holds],
        )
        for figure in figures
        if figure.value is not None
    ]


def written(value: float) -> str:
    """Three digits that count, and no more."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
