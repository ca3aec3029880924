"""`answerbus contracts`: write the JSON Schemas of all events and contracts, and AsyncAPI."""

from pathlib import Path
from typing import Annotated

import typer

from answerbus import asyncapi as bus_document
from answerbus.schema_export import documents
from services import plugins

app = typer.Typer(help="The contracts of the bus.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where to write.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Where to write.")]


@app.command()
def export(folder: Folder = Path("contracts/schemas")) -> None:
    """Write the JSON Schema of each event and each contract, also of plugins, one file each."""
    changed = 0
    written = documents(plugins.registry())
    for name, text in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed += 1
    typer.echo(f"{len(written)} schemas in {folder}, {changed} changed")


@app.command()
def asyncapi(file: File = Path("contracts/asyncapi.json")) -> None:
    """Write the bus as an AsyncAPI 3 document: channels, operations, messages and bindings."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(bus_document.text(), encoding="utf-8")
    typer.echo(f"{file}: {len(bus_document.document()['channels'])} channels")
