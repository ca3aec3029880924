"""`answerbus evidence`: signed packs of what happened, and the program that checks them."""

import asyncio
import time
import zipapp
from collections.abc import Mapping
from datetime import datetime
from os.path import lexists
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

import answerbus.evidence
from answerbus.broker_time import moment
from answerbus.client.bus import Bus
from answerbus.evidence.__main__ import counts_text
from answerbus.evidence.__main__ import main as check
from answerbus.topics import STEPS
from answerbus.wire import format_timestamp
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.commands.anchoring import Key
from services.commands.known_definitions import known_definitions
from services.commands.private_records import hidden_runs
from services.commands.time_option import time_option
from services.operator_options import By, now, operator
from services.operators.adapters.evidence import EvidenceOrder, Exported, PackTooLarge
from services.operators.adapters.evidence import export as write_pack
from services.operators.adapters.signing import EvidenceSigner, signer_of
from services.operators.audit.evidence import PackScope
from services.settings import plugins
from services.settings.settings import Settings, from_environment
from services.text.digest import canonical
from services.text.escaping import plain_line

app = typer.Typer(help="Export and check signed packs for auditors.", no_args_is_help=True)

Workflow = Annotated[str | None, typer.Option("--workflow", metavar="ID", help="This workflow.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="All since then: 30d, RFC 3339.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file, such as pack.zip.")]
VerifierOut = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="A new file, such as verify.pyz.")
]
Pack = Annotated[Path, typer.Argument(metavar="PACK", help="What `export` has written.")]
PublicKeys = Annotated[
    list[Path], typer.Option("--key", metavar="FILE", help="Public key as PEM; repeatable.")
]
Anchors = Annotated[
    list[Path] | None,
    typer.Option("--anchor", metavar="FILE", help="What `audit anchor` wrote; repeatable."),
]


@app.command()
def export(
    *,
    key: Key,
    out: Out,
    workflow: Workflow = None,
    since: Since = None,
    by: By = None,
    config: Config = None,
) -> None:
    """Write attempts, steps, decisions, outcomes, definitions, schemas and heads, and sign them.

    Run `answerbus audit verify` before: it compares the topics with each other.
    """
    if (workflow is None) == (since is None):
        raise typer.BadParameter("either --workflow or --since")
    if lexists(out):
        raise typer.BadParameter(f"--out: {out} is there already.")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"--out: {out.parent} is not a folder.")
    settings = from_environment(config)
    begin = None if since is None else moment(time_option(since, int(time.time() * 1000)))
    scope = PackScope(workflow, format_timestamp(begin) if begin else None)
    bus, signer = bus_of(settings.kafka), signer_of(key)
    try:
        done = asyncio.run(_export(bus, settings, signer, scope, begin, operator(by), out))
    except PackTooLarge as error:
        raise typer.BadParameter(str(error)) from None
    except FileExistsError:
        raise typer.BadParameter(f"--out: {out} is there already.") from None
    if workflow is not None and not any(done.lines.values()):
        out.unlink()
        nothing = plain_line(f"Nothing of the workflow {workflow} is kept: there is no pack.")
        stderr().print(nothing, markup=False)
        raise typer.Exit(1)
    stdout().print(plain_line(f"{out}: {counts_text(done.lines)}."), markup=False)
    for digest in sorted(done.unknown):
        stderr().print(f"No definition or schema of the digest {digest} is kept.", markup=False)


@app.command()
def verify(pack: Pack, *, key: PublicKeys, anchor: Anchors = None, as_json: AsJson = False) -> None:
    """Check a pack with the public key. Exit code 1: it is not whole, and each finding is named."""
    keys = [part for path in key for part in ("--key", str(path))]
    anchors = [part for path in anchor or () for part in ("--anchor", str(path))]
    raise typer.Exit(check([*keys, *anchors, *(["--json"] if as_json else []), "--", str(pack)]))


@app.command()
def verifier(*, out: VerifierOut) -> None:
    """Write the program that checks packs, for auditors: it needs Python 3.11 alone."""
    if out.is_file():  # a pipe has nothing to replace
        raise typer.BadParameter(f"--out: {out} is there already.")
    folder = Path(answerbus.evidence.__file__).parent
    with TemporaryDirectory() as temporary:
        inner = Path(temporary) / "answerbus"
        copytree(folder, inner / "evidence", ignore=ignore_patterns("__pycache__"))
        (inner / "__init__.py").touch()
        zipapp.create_archive(temporary, out, main="answerbus.evidence.__main__:run")
    stdout().print(plain_line(f"{out}: python {out} PACK.zip --key PUBLIC.pem"), markup=False)


async def _export(
    bus: Bus,
    settings: Settings,
    signer: EvidenceSigner,
    scope: PackScope,
    since: datetime | None,
    by: str,
    out: Path,
) -> Exported:
    order = EvidenceOrder(scope, signer, now(), by, settings.accounts.remember_s, since)
    done = await write_pack(bus, out, order, await _texts(bus, settings))
    if hidden := await hidden_runs(bus, (STEPS,)):
        stderr().print(hidden, style="yellow", markup=False)
    return done


async def _texts(bus: Bus, settings: Settings) -> Mapping[str, str]:
    """The definitions of this installation: agents of the settings, and contracts."""
    agents = await known_definitions(bus, settings)
    found = {digest: one.model_dump_json() for digest, one in agents.items()}
    for contract in plugins.registry():
        found[contract.id.digest] = canonical(contract.schema()).decode()
    return found
