"""`answerbus doctor`: checks a set-up, and says what to change."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import typer
from rich.text import Text

from services.command_line import AsJson, Config, stdout
from services.doctor.examine import examined
from services.doctor.findings.finding import Finding, Verdict
from services.escaping import json_lines, plain

EXIT_WRONG = 1
STYLES: Mapping[Verdict, str] = MappingProxyType(
    {"ok": "green", "warning": "yellow", "wrong": "bold red"}
)
_VERDICT_WIDTH = max(map(len, STYLES))
_ABOUT_WIDTH = 15


def doctor(*, as_json: AsJson = False, config: Config = None) -> None:
    """Check libraries, settings, broker, topics, clocks, workers and profiles; writes nothing.

    Exit code 0: all is well, or there are warnings; 1: something is wrong.
    """
    found = asyncio.run(_shown(config, as_json=as_json))
    if as_json:
        typer.echo(json_lines([asdict(finding) for finding in found]))
    if any(finding.verdict == "wrong" for finding in found):
        raise typer.Exit(EXIT_WRONG)


async def _shown(config: Path | None, *, as_json: bool) -> Sequence[Finding]:
    """Print each as soon as it is found, for some take their time."""
    console, found = stdout(), []
    async for finding in examined(config):
        found.append(finding)
        if not as_json:
            console.print(line_of(finding))
    return found


def line_of(finding: Finding) -> Text:
    """One line for people."""
    return Text.assemble(
        (finding.verdict.ljust(_VERDICT_WIDTH), STYLES[finding.verdict]),
        (f" {finding.about.ljust(_ABOUT_WIDTH)} ", "bold"),
        plain(finding.said).replace("\n", " "),
    )
