"""The demo's board for people: a live table in a terminal, else a line for each change."""

import time
from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from infra.demo.board import Row, seconds
from services.operators.records.event_line import STYLES

_REFRESHES_PER_S = 8
_PLAIN_COLUMNS = 120  # where there is no terminal that has a width


class Screen(Protocol):
    """Where the board is shown; used as a context manager."""

    def show(self, rows: Sequence[Row]) -> None:
        """Show the rows as they are now."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def screen_for(console: Console) -> Screen:
    """What the console can show."""
    if console.is_terminal:
        return LiveTable(console)
    console.width = _PLAIN_COLUMNS
    return PlainLines(console)


class LiveTable:
    """Every request in its row; the clock of open ones runs."""

    def __init__(self, console: Console) -> None:
        self._rows: Sequence[Row] = ()
        self._began = time.monotonic()
        self._live = Live(
            console=console,
            get_renderable=lambda: table(self._rows, time.monotonic() - self._began),
            refresh_per_second=_REFRESHES_PER_S,
            vertical_overflow="visible",
        )

    def show(self, rows: Sequence[Row]) -> None:
        """Show the rows as they are now."""
        self._rows = rows

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class PlainLines:
    """A line whenever something has happened to a request, and the table at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: Sequence[Row] = ()
        self._began = time.monotonic()

    def show(self, rows: Sequence[Row]) -> None:
        """Print the rows that say something new."""
        texts = {row.case.name: row.text for row in self._rows}
        at_s = time.monotonic() - self._began
        for row in rows:
            if row.text and row.text != texts[row.case.name]:
                line = f"{at_s:6.1f} s  {row.case.name:20} {row.case.asked:20} {row.text}"
                self._console.print(line, markup=False, soft_wrap=True)
        self._rows = rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shown = table(self._rows, time.monotonic() - self._began)
        self._console.print(shown)


def table(rows: Sequence[Row], open_s: float) -> Table:
    """The whole board; `open_s` is how long open requests have waited."""
    board = Table(expand=True)
    board.add_column("request", no_wrap=True)
    board.add_column("asked for", no_wrap=True)
    board.add_column("tries", no_wrap=True, justify="right")
    board.add_column("outcome", ratio=1)
    board.add_column("time", no_wrap=True, justify="right", min_width=7)
    board.add_column("tokens", no_wrap=True, justify="right", min_width=6)
    for row in rows:
        board.add_row(*_cells(row, open_s))
    return board


def _cells(row: Row, open_s: float) -> Sequence[Text | str]:
    if row.case.is_duplicate and not row.terminals:
        return row.case.name, row.case.asked, "", Text("no event: a duplicate", "dim"), "", ""
    took_s = seconds(row.terminals[0]) if row.terminals else open_s
    style = STYLES[row.terminals[0].kind] if row.terminals else "dim"
    return (
        row.case.name,
        row.case.asked,
        str(row.attempts or ""),
        Text(row.text, style),
        f"{took_s:.1f} s",
        f"{row.tokens:,}" if row.tokens else "",
    )
