"""No step of the checks leaves out a folder that holds one of its tests."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from infra.checks.steps import LONG, STEPS, WIDE

ROOT = Path(__file__).parents[2]
MARKS = {"integration": "kafka", "long": "long", "browser": "browser", "e2e": "real_llm"}


def left_out(command: Iterable[str]) -> list[str]:
    """The folders of tests that a step does not even collect."""
    options = (each for each in command if each.startswith("--ignore="))
    return [each.removeprefix("--ignore=") for each in options]


def modules(folder: str) -> list[tuple[str, str]]:
    paths = sorted((ROOT / folder).rglob("test_*.py"))
    return [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


def test_steps_leave_folders_out() -> None:
    for command in [{**STEPS, **LONG}[step] for step in ("quick", *MARKS)]:
        assert left_out(command)
        assert all((ROOT / folder).is_dir() for folder in left_out(command))


@pytest.mark.parametrize("step", MARKS)
def test_a_step_leaves_out_only_folders_without_its_mark(step: str) -> None:
    for folder in left_out({**STEPS, **LONG}[step]):
        assert [name for name, text in modules(folder) if f"mark.{MARKS[step]}" in text] == []


def test_the_quick_step_leaves_out_only_what_is_not_quick() -> None:
    """A module is not quick by its folder, or since the mark stands for the whole of it."""
    for folder in left_out(STEPS["quick"]):
        if folder.removeprefix("tests/") in WIDE:
            continue
        assert [name for name, text in modules(folder) if "\npytestmark = " not in text] == []
