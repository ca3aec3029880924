"""The demo's board as it was over time, for docs/demo.svg: `python -m infra.demo FILE`."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Group, RenderableType
from rich.text import Text

from infra.demo.board import Row
from infra.demo.screen import Screen, table
from infra.recording.frames import recorded, svg

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inner.__exit__(kind, error, trace)
        if error is None:
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
