"""Asks the operator for confirmation before anything is written."""

import sys
from collections.abc import Collection, Sequence

import typer

from services.command_line import stderr
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow
from services.text.escaping import plain_line

LINES_MAX = 5


def confirm(question: str) -> None:
    """Go on only if the operator says yes. Raises typer.Abort, or typer.BadParameter."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("There is no terminal to ask at: say --yes if you are sure.")
    typer.confirm(question, abort=True, err=True)


def report_unavailable_ids(letters: DeadLetterIndex, ids: Collection[str]) -> None:
    """Say which dead letters of those that were named are not open, and why.

    Raises typer.Exit if some are unknown.
    """
    found = {letter_id: letters.get(letter_id) for letter_id in sorted(ids)}
    unknown = [
        f"There is no dead letter {letter_id}." for letter_id, one in found.items() if not one
    ]
    settled = [_settled(one) for one in found.values() if one and one.status != "open"]
    _say(unknown, "red")
    _say(settled, "yellow")
    if unknown:
        raise typer.Exit(1)


def _settled(letter: DeadLetterRow) -> str:
    if letter.replay:
        return f"{letter.id} was replayed already, as {letter.replay.request_id}."
    aside = letter.dismissal
    return f"{letter.id} was dismissed" + (f" by {aside.by}: {aside.reason}" if aside else ".")


def _say(lines: Sequence[str], style: str) -> None:
    console = stderr()
    for line in lines[:LINES_MAX]:
        console.print(plain_line(line), style=style, markup=False)
    if len(lines) > LINES_MAX:
        console.print(f"And {len(lines) - LINES_MAX:,} more like that.", style=style)
