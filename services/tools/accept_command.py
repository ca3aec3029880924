"""`answerbus tools accept`: takes changed tools that need approval, as their card stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from services.command_line import Config, bus_of, json_shown, refuse, stderr, stdout
from services.operator_options import By, Yes, confirm, operator
from services.settings.settings import from_environment
from services.text.escaping import plain_line

if TYPE_CHECKING:
    from services.tools.accepting import ToolChange

Digest = Annotated[
    str | None,
    typer.Option("--digest", metavar="SHA256", help="Only the card of this digest, as you saw it."),
]


def accept(
    toolset: Annotated[str, typer.Argument(metavar="TOOLSET", help="Whose tools have changed.")],
    *,
    digest: Digest = None,
    by: By = None,
    yes: Yes = False,
    config: Config = None,
) -> None:
    """Accept changed tools that need approval, as the card of the toolset has them now.

    Shows what has changed whole, also with --yes. Exit code 1: nothing is to be accepted, or the
    card has another digest.
    """
    from services.tools import accepting  # noqa: PLC0415 - Kafka's client

    bus, who = bus_of(from_environment(config).kafka), operator(by)
    found = asyncio.run(accepting.look(bus, toolset))
    if found is None:
        refuse(f"No toolset {toolset} was announced: `answerbus tools list` shows those.")
    if digest is not None and not accepting.is_named(found.digest, digest):
        refuse(f"The card of {toolset} is {found.digest} now: look at it again.")
    if not found.changes:
        refuse(f"No tool of {toolset} that needs approval has changed.")
    for change in found.changes:
        _show(change)
    if not yes:
        confirm(f"Accept this of {plain_line(toolset)} as {plain_line(who)}?")
    asyncio.run(accepting.write(bus, found.changes, who))
    stdout().print(f"{toolset}  {found.digest}", style="bold", markup=False)
    stderr().print("Accepted. Settings that pin the toolset must pin this digest.", markup=False)


def _show(change: ToolChange) -> None:
    out = stderr()
    out.print(plain_line(change.after.name), style="bold", markup=False)
    for name, was, is_now in change.differences():
        if change.before:
            out.print(f"  {name}, before:", style="dim", markup=False)
            out.print(json_shown(was))
        out.print(f"  {name}, now:", style="dim", markup=False)
        out.print(json_shown(is_now))
