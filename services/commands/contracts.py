"""`answerbus contracts`: list and show contracts, write all JSON Schemas, and AsyncAPI."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter
from rich.table import Table
from rich.text import Text

from answerbus import asyncapi as bus_document
from answerbus.contract import Contract
from answerbus.schema_export import documents
from services.command_line import AsJson, json_shown, print_table, stdout, writing_file
from services.settings import plugins
from services.text.escaping import json_lines

app = typer.Typer(help="List, show and export the contracts of the bus.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where to write.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Where to write.")]

ContractName = Annotated[
    str, typer.Argument(metavar="NAME", help="A contract, as plan_proposal or plan_proposal.v1.")
]
Asked = Annotated[
    bool, typer.Option("--asked", help="The schema that models are asked for, in its place.")
]
Sourced = tuple[Contract[Any], str]


@app.command(name="list")
def list_(*, as_json: AsJson = False) -> None:
    """Show which contracts requests can name here, also those of plugins, and what each is for."""
    found = plugins.contracts_with_distributions()
    if as_json:
        typer.echo(json_lines([as_data(contract, source) for contract, source in found]))
        return
    table = Table("contract", "what it is for", "brought by", show_lines=True)
    for contract, source in found:
        words = Text.assemble(
            contract.summary, *((f"\n{part}", "dim") for part in parts_of(contract))
        )
        table.add_row(f"{contract.name}.v{contract.version}", words, source)
    print_table(stdout(), table)


@app.command()
def show(name: ContractName, *, asked: Asked = False, as_json: AsJson = False) -> None:
    """Show a contract with the JSON Schema of its answers."""
    contract, source = named(name, plugins.contracts_with_distributions())
    schema = contract.asked_schema() if asked else contract.schema()
    if as_json:
        typer.echo(json_lines({**as_data(contract, source), "schema": schema}))
        return
    console = stdout()
    console.print(Text(f"{contract.name}.v{contract.version}, brought by {source}", "bold"))
    for line in (contract.summary, *parts_of(contract)):
        console.print(line, markup=False)
    console.print(json_shown(schema))


@app.command()
def export(folder: Folder) -> None:
    """Write the JSON Schema of each event and each contract, also of plugins, one file each."""
    changed = 0
    written = documents(plugins.registry())
    for name, text in written.items():
        path = folder / name
        with writing_file(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                changed += 1
    typer.echo(f"{len(written)} schemas in {folder}, {changed} changed")


@app.command()
def asyncapi(file: File) -> None:
    """Write the bus as an AsyncAPI 3 document: channels, operations, messages and bindings."""
    with writing_file(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(bus_document.text(), encoding="utf-8")
    typer.echo(f"{file}: {len(bus_document.document()['channels'])} channels")


def named(text: str, contracts: Sequence[Sourced]) -> Sourced:
    """The contract of that name, in its newest version if none is said; raises BadParameter."""
    fits = [
        (contract, source)
        for contract, source in contracts
        if text in (contract.name, _label(contract))
    ]
    if not fits:
        known = ", ".join(_label(contract) for contract, _ in contracts)
        raise typer.BadParameter(f"There is no contract {text!r}; known: {known}.")
    return max(fits, key=lambda found: found[0].version)


def parts_of(contract: Contract[Any]) -> Sequence[str]:
    """Its variants and rules, a line each."""
    lines = {
        "variants": ", ".join(_variants(contract.schema())),
        "ends as a refusal": ", ".join(_refusing(contract)),
        "for auditors alone": ", ".join(sorted(contract.audit_only)),
        "text variant": "with `at_last: text`, the model's text as it is" * _has_text(contract),
    }
    return [f"{name}: {text}" for name, text in lines.items() if text]


def as_data(contract: Contract[Any], source: str) -> Mapping[str, object]:
    return {
        "name": contract.name,
        "version": contract.version,
        "digest": contract.id.digest,
        "summary": contract.summary,
        "variants": _variants(contract.schema()),
        "refusing_variants": _refusing(contract),
        "audit_only": sorted(contract.audit_only),
        "text_variant": _has_text(contract),
        "distribution": source,
    }


def _label(contract: Contract[Any]) -> str:
    return f"{contract.name}.v{contract.version}"


def _has_text(contract: Contract[Any]) -> bool:
    return contract.from_text is not None


def _refusing(contract: Contract[Any]) -> list[str]:
    """The variants that results do not have."""
    if contract.result is None:
        return []
    published = TypeAdapter(contract.result).json_schema()
    left = _variants(published) or [str(published.get("title"))]
    return [name for name in _variants(contract.schema()) if name not in left]


def _variants(schema: Mapping[str, Any]) -> list[str]:
    """The names of a union's branches, as pydantic writes them; none for another type."""
    branches = schema.get("oneOf") or schema.get("anyOf") or ()
    return [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]
