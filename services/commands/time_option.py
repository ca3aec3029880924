"""A time as an option of a command."""

import typer

from services.operators.dead_letters.moment import EXAMPLES, moment_ms


def time_option(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raises typer.BadParameter."""
    at_ms = moment_ms(text, now_ms)
    if at_ms is None:
        raise typer.BadParameter(f"{text!r} is not a time such as {EXAMPLES}.")
    return at_ms
