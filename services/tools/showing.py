"""What the commands of tools print."""

from typing import Any

from rich.text import Text

from answerbus.tool_result import ToolFailure, ToolOk, ToolProgress, ToolResult
from answerbus.toolset_card import ToolsetCard
from services.command_line import json_shown, stderr, stdout
from services.escaping import plain_line
from services.tools.check.rule import Ruling

_STYLES = {"ok": "green", "wrong": "bold red", "skipped": "dim"}
_DIGEST_SHOWN_CHARS = 19


def short_digest(digest: str) -> str:
    """Enough of a digest to tell it from others."""
    return digest[:_DIGEST_SHOWN_CHARS]


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
    """A ruling for programs."""
    return {"rule": ruling.rule, "verdict": ruling.verdict, "said": ruling.said}


def card_data(card: ToolsetCard) -> dict[str, Any]:
    """A card with the digests that its readers compute."""
    digests = {tool.name: tool.computed_digest() for tool in card.tools}
    data = card.model_dump(mode="json")
    tools = [{**tool, "digest": digests[tool["name"]]} for tool in data["tools"]]
    return {**data, "tools": tools, "digest": card.computed_digest()}
