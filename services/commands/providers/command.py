"""`answerbus providers`: list them, and check that one reads and writes as it must."""

from typing import Annotated

import typer
from pydantic_core import from_json
from rich.table import Table
from rich.text import Text

from services.command_line import AsJson, print_table, stderr, stdout
from services.commands.providers.running import checked_in_time
from services.commands.providers.server import PlayedServer
from services.settings.installed import UnusablePlugin
from services.settings.settings import SetUpError
from services.text.escaping import json_lines, plain
from services.worker.adapters.providers.kinds.known import SHIPPED, kind_named, known_names

app = typer.Typer(help="List and check providers, also those of plug-ins.", no_args_is_help=True)

ProviderName = Annotated[
    str, typer.Argument(metavar="NAME", help="As `provider` has it in the settings.")
]
Show = Annotated[
    bool, typer.Option("--show", help="Print the first request to stderr, as it was sent.")
]


@app.command(name="list")
def list_(*, as_json: AsJson = False) -> None:
    """Show the providers of models that profiles can name here; plug-ins are not loaded."""
    try:
        found = {name: "answerbus" if name in SHIPPED else "a plug-in" for name in known_names()}
    except UnusablePlugin as error:
        raise SetUpError(str(error)) from None
    if as_json:
        typer.echo(json_lines([{"provider": name, "of": found[name]} for name in found]))
        return
    table = Table("provider", "brought by")
    for name, source in found.items():
        table.add_row(Text(name), source)
    print_table(stdout(), table)


@app.command()
def check(name: ProviderName, *, show: Show = False, as_json: AsJson = False) -> None:
    """Try a provider on replies of each class; exit code 3 if it fails a check.

    Nothing is asked but a server of this command on this machine.
    """
    try:
        known_names()
        kind = kind_named(name)
    except UnusablePlugin as error:
        raise SetUpError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    server = PlayedServer()
    results = checked_in_time(name, kind, server=server)
    if show:
        stderr().print(Text(_shown(server.first)))
    if as_json:
        typer.echo(json_lines([{"check": one.check, "fault": one.fault} for one in results]))
    else:
        table = Table("check", "result")
        for one in results:
            table.add_row(one.check, Text(one.fault or "as it must"))
        print_table(stdout(), table)
    faults = [f"{one.check}: {one.fault}" for one in results if one.fault]
    if faults:
        raise SetUpError("\n".join(f"The provider {name!r} fails in {fault}." for fault in faults))


def _shown(request: bytes | None) -> str:
    """A request for people: its lines, and its body, JSON indented."""
    if request is None:
        return "No request was sent."
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").replace("\r\n", "\n")
    try:
        text = json_lines(from_json(body))
    except ValueError:  # none, or of a provider that sends no JSON
        text = body.decode(errors="replace")
    return plain(f"{lines}\n\n{text}\n")
