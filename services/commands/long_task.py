"""Stops work before its end: by Ctrl-C, or when another operator's command takes over."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, assert_never

import typer
from rich.progress import Progress

from services.command_line import EXIT_CTRL_C, stderr
from services.operators.adapters.writer import Superseded

HowEnded = Literal["done", "stopped", "superseded"]


@contextmanager
def stopping() -> Iterator[asyncio.Event]:
    """An event that the first Ctrl-C sets, or SIGTERM, which services.cli makes one.

    What is under way is to be finished. A second one interrupts it.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_signal() -> None:
        stop.set()
        release()

    def release() -> None:
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        release()


async def slept(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until it is stopped."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await stop.wait()
    except TimeoutError:
        pass


def leave(how: HowEnded) -> None:
    """Say why the work is not done, and leave; nothing if it is done. Raises typer.Exit."""
    match how:
        case "done":
            return
        case "stopped":
            stderr().print("Stopped. The same command goes on with the rest.", style="yellow")
            raise typer.Exit(EXIT_CTRL_C)
        case "superseded":
            stderr().print(str(Superseded()), style="red")
            raise typer.Exit(1)
        case _:
            assert_never(how)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Called with how many more are done."""
    console = stderr()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
