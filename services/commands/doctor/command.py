"""`answerbus doctor`: checks a set-up, and names the remedies."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Annotated

import typer
from rich.text import Text

from services.command_line import AsJson, Config, stdout
from services.commands.doctor.examine import examined, examined_as
from services.commands.doctor.findings.facts import Finding, Verdict
from services.kafka.planning.rights import TOOLSET_DEFAULT, Role
from services.text.escaping import json_lines, plain

EXIT_WRONG = 1
STYLES: Mapping[Verdict, str] = MappingProxyType(
    {"ok": "green", "warning": "yellow", "wrong": "bold red"}
)
_VERDICT_WIDTH = max(map(len, STYLES))
_ABOUT_WIDTH = 15


AsRole = Annotated[
    Role | None,
    typer.Option("--as", help="Check only whether our user has a role's rights on Kafka."),
]
Group = Annotated[
    str | None,
    typer.Option("--group", help="With --as app: the group of its subscriptions."),
]
Toolset = Annotated[
    str, typer.Option("--toolset", help="With --as tools: what the tool server serves.")
]


def doctor(
    *,
    as_role: AsRole = None,
    group: Group = None,
    toolset: Toolset = TOOLSET_DEFAULT,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Check libraries, settings, broker, topics, clocks, workers and profiles.

    Tries one transaction and aborts it; nothing else is written, and no reader sees any of it.
    Exit code 0: all is well, or there are warnings; 1: something is wrong.
    """
    checks = examined_as(as_role, group, config, toolset) if as_role else examined(config)
    found = asyncio.run(_shown(checks, as_json=as_json))
    if as_json:
        typer.echo(json_lines([asdict(finding) for finding in found]))
    if any(finding.verdict == "wrong" for finding in found):
        raise typer.Exit(EXIT_WRONG)


async def _shown(checks: AsyncIterator[Finding], *, as_json: bool) -> Sequence[Finding]:
    """Print each as soon as it is found, for some take their time."""
    console, found = stdout(), []
    async for finding in checks:
        found.append(finding)
        if not as_json:
            console.print(line_of(finding))
    return found


def line_of(finding: Finding) -> Text:
    return Text.assemble(
        (finding.verdict.ljust(_VERDICT_WIDTH), STYLES[finding.verdict]),
        (f" {finding.about.ljust(_ABOUT_WIDTH)} ", "bold"),
        plain(finding.said).replace("\n", " "),
    )
