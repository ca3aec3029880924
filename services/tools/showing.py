"""The output of the commands of tools."""

from typing import Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from answerbus.tool_result import NOT_APPROVED, ToolFailure, ToolOk, ToolProgress, ToolResult
from answerbus.toolset_card import ToolsetCard
from services.command_line import json_shown, stderr, stdout
from services.text.escaping import plain_line
from services.tools.check.cases import Ruling

_STYLES = {"ok": "green", "wrong": "bold red", "skipped": "dim"}


def tools_table(card: ToolsetCard) -> Table:
    """A line for each tool, with its name whole: it is what agents and calls are given."""
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("tool", overflow="fold", min_width=_longest(card))
    for heading in ("delivery", "approval", "time-out", "what it does"):
        table.add_column(heading, overflow="fold")
    for tool in card.tools:
        words = plain_line(tool.description.strip().partition("\n")[0])
        timeout = f"{tool.timeout_s:g} s"
        table.add_row(f"{card.toolset}.{tool.name}", tool.delivery, tool.approval, timeout, words)
    return table


def _longest(card: ToolsetCard) -> int:
    return max((len(card.toolset) + len(tool.name) + 1 for tool in card.tools), default=0)


def show_progress(progress: ToolProgress) -> None:
    """A sign of life, beside the data."""
    stderr().print(f"… {progress.note}" if progress.note else "…", style="dim", markup=False)


def show_result(result: ToolResult) -> None:
    """A value as data; a failure and notes beside it."""
    match result.outcome:
        case ToolOk(value=value):
            stdout().print(json_shown(value))
        case ToolFailure() as failed:
            stderr().print(f"{failed.code}: {failed.message}", style="red", markup=False)
            if failed.code == NOT_APPROVED:
                stderr().print("`--approve` approves this call.", style="dim", markup=False)
            for problem in failed.problems:
                place = problem.path or "all of it"
                stderr().print(f"  {place}: {problem.expected}", style="red", markup=False)
    for note in result.notes:
        stderr().print(f"note: {note}", style="dim", markup=False)


def ruling_line(ruling: Ruling) -> Text:
    """Verdict, rule, and what was seen."""
    verdict = (f"{ruling.verdict:<8}", _STYLES[ruling.verdict])
    return Text.assemble(verdict, (plain_line(ruling.rule), "bold"), f": {plain_line(ruling.said)}")


def ruling_data(ruling: Ruling) -> dict[str, str]:
    return {"rule": ruling.rule, "verdict": ruling.verdict, "said": ruling.said}


def card_data(card: ToolsetCard) -> dict[str, Any]:
    """A card with the digests that its readers compute."""
    digests = {tool.name: tool.computed_digest() for tool in card.tools}
    data = card.model_dump(mode="json")
    tools = [{**tool, "digest": digests[tool["name"]]} for tool in data["tools"]]
    return {**data, "tools": tools, "digest": card.computed_digest()}
