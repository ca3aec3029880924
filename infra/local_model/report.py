"""The progress of a long download: in words, and in bytes."""

from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)


class Report(Protocol):
    def say(self, line: str) -> None:
        """Take a remark."""

    def progress(self, step: str, done_bytes: int, total_bytes: int) -> None:
        """Take how far the whole is; `step` names what is being done for it now."""


class Silence:
    def say(self, line: str) -> None:
        """Drop a remark."""

    def progress(self, step: str, done_bytes: int, total_bytes: int) -> None:
        """Drop a figure."""


class TerminalReport:
    """Someone at a terminal: a line per remark, and one bar. Used as a context manager."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._bars = Progress(
            *columns,
            TransferSpeedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def say(self, line: str) -> None:
        """Print a remark above the bar."""
        self._bars.console.print(line, markup=False)

    def progress(self, step: str, done_bytes: int, total_bytes: int) -> None:
        if self._task is None:
            self._task = self._bars.add_task(step, total=total_bytes)
        self._bars.update(self._task, description=step, completed=done_bytes)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
