"""Options of commands that change something: in whose name, why, and whether it is meant."""

import getpass
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer

By = Annotated[str | None, typer.Option("--by", help="In whose name. Default: user@host.")]


def _reason(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("this is empty: say why.")
    return text


Reason = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", parser=_reason, help="Why, for those who look later."),
]
OptionalReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for those who look later.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def operator(by: str | None) -> str:
    """`by`, or the user of this machine."""
    if by:
        return by
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.fromtimestamp(time.time(), UTC)


def confirm(question: str) -> None:
    """Go on only if the operator says yes. Raises typer.Abort, or typer.BadParameter."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("There is no terminal to ask at: say --yes if you are sure.")
    with _interruptible():
        typer.confirm(question, abort=True, err=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """In a loop of asyncio, Ctrl-C would count only once the question is answered."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
