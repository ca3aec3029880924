"""`answerbus find`: requests whose prompt has a text, the newest first."""

import asyncio
from typing import Annotated

import typer

from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.operators.adapters.prompt_search import PromptSearch, as_data, search_prompts
from services.operators.dead_letters.moment import as_text
from services.operators.records.prompt_text import TEXT_CHARS_MAX
from services.settings.settings import from_environment
from services.text.counted import count_text
from services.text.escaping import json_lines, plain_line

EXIT_NONE = 1

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text to find, in any case.")]
Within = Annotated[
    float, typer.Option("--within", metavar="SECONDS", min=1, max=3_600, help="How long to search.")
]
Most = Annotated[int, typer.Option("--max", min=1, max=10_000, help="Stop after so many requests.")]


def find(
    text: Text,
    *,
    within: Within = 60,
    most: Most = 100,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Find requests by the text of their prompt, the newest first. Exit code 1: there is none."""
    wanted = text.strip()[:TEXT_CHARS_MAX]
    if not wanted:
        raise typer.BadParameter("give a text to look for")
    bus = bus_of(from_environment(config).kafka)
    with stderr().status("reading"):
        found = asyncio.run(search_prompts(bus, wanted, within_s=within, matches_max=most))
    if as_json:
        typer.echo(json_lines(as_data(found)))
    else:
        _show(found)
    if not found.matches:
        raise typer.Exit(EXIT_NONE)


def _show(found: PromptSearch) -> None:
    for match in found.matches:
        about = f"{as_text(match.at_ms)} {match.key.workflow_id} {match.key.request_id}"
        line = plain_line(f"{about} {match.part}: {match.excerpt}")
        stdout().print(line, markup=False)
    back = (
        "all that Kafka still has"
        if found.back_to_ms is None
        else f"back to {as_text(found.back_to_ms)}"
    )
    none = "" if found.matches else "No prompt has this text; ids are not searched. "
    stderr().print(f"{none}Searched {count_text(found.looked_at, 'record')}, {back}.", style="dim")
