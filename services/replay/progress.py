"""A progress bar at a terminal; no output anywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from services.command_line import stderr


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Called with how many more are done."""
    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
