"""Every cause of dead letters has its section, and all runbooks name commands that are there."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from answerbus.dead_letter import Cause
from services.cli import application
from tests.alerts.rules import names
from tests.alerts.runbooks import RUNBOOKS

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbooks" / "dead-letters.md"
PARTS = ("What happened.", "How to see it.", "What to change.", "Replay.", "Dismiss")
_UNION, *_ = get_args(Cause)
CAUSES = [cause.model_fields["kind"].default for cause in get_args(_UNION)]


def sections() -> dict[str, str]:
    """The text of each section by its heading, without the first one, which is not a cause."""
    found = re.split(r"^## (.+)$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(found[3::2], found[4::2], strict=True))


def test_each_cause_has_a_section_and_a_line_in_the_table_and_no_section_is_of_another() -> None:
    lines = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\)", RUNBOOK.read_text(), flags=re.MULTILINE)

    assert sorted(sections()) == sorted(CAUSES)
    assert lines == [(cause, cause) for cause in sections()]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_section_says_all_that_an_operator_needs(cause: str) -> None:
    bold = re.findall(r"^\*\*(.+?)\*\*", sections()[cause], flags=re.MULTILINE)

    assert tuple(bold) == PARTS


def commands(runbook: Path) -> list[list[str]]:
    """What a runbook says to type, as words; `run …` alone means `answerbus replay run …`."""
    text = runbook.read_text(encoding="utf-8")
    lines = re.findall(r"^ *answerbus (.+)$", text, re.MULTILINE)
    spans = re.findall(r"`answerbus ([^`\n]+)`", text)
    short = re.findall(r"`((?:run|groups|status|dry-run) [^`\n]+)`", text)
    return [typed.split() for typed in [*lines, *spans, *(f"replay {typed}" for typed in short)]]


@pytest.mark.parametrize("runbook", sorted(RUNBOOK.parent.glob("*.md")), ids=lambda at: at.stem)
def test_every_command_of_a_runbook_is_there_with_its_options(runbook: Path) -> None:
    root: Any = typer.main.get_command(application())
    known = commands(runbook)

    assert len(known) > (20 if runbook == RUNBOOK else -1)
    for words in known:
        command: Any = root
        named = list(words)
        while named and hasattr(command, "get_command"):
            command = command.get_command(None, named.pop(0))
            assert command is not None, words
        options = {"--help", *(name for option in command.params for name in option.opts)}
        assert {word for word in named if word.startswith("--")} <= options, words


@pytest.mark.parametrize("alert", names())
def test_each_runbook_is_followed_and_says_what_is_tried(alert: str) -> None:
    """`make alerts` tries these sentences against the fault of the alert."""
    followed = RUNBOOKS[alert.removeprefix("Answerbus")]
    text = (RUNBOOK.parent / f"{followed.page}.md").read_text(encoding="utf-8")
    _, how_to_see, what_to_do, over = text.split("\n## ", 4)[1:]

    assert f"Alert: `{alert}`" in text
    assert followed.seen
    for part, sentences in (
        (how_to_see, followed.seen),
        (what_to_do, followed.done),
        (over, followed.over),
    ):
        assert [one for one in sentences if one not in part] == []
