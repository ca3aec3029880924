"""The client's types as its users see them, in the two checkers that most of them have."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.wide

ROOT = Path(__file__).parents[2]
API = (ROOT / "tests/typing/client_api.py").read_text(encoding="utf-8")
LIMIT_S = 300.0


def mypy(folder: Path) -> list[str]:
    """The errors that mypy finds in the file of a folder."""
    cache = str(folder.parent / "mypy-cache")
    done = run("mypy", "--strict", "--cache-dir", cache, str(folder / "client_api.py"))
    assert "1 source file" in done.stdout, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def pyright(folder: Path) -> list[str]:
    """The errors that pyright finds there, as strict as it can be."""
    settings = {
        "include": ["client_api.py"],
        "extraPaths": [str(ROOT / "contracts"), str(ROOT)],
        "typeCheckingMode": "strict",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = run("pyright", "--outputjson", "-p", str(folder), "--pythonpath", sys.executable)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return [finding["message"] for finding in report["generalDiagnostics"]]


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,  # the project's own settings of mypy
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},  # noqa: TID251 - for a child
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


Checker = Callable[[Path], list[str]]
checkers = pytest.mark.parametrize("checker", [mypy, pyright])


@checkers
def test_the_api_has_the_types_that_it_promises(checker: Checker, tmp_path: Path) -> None:
    (tmp_path / "client_api.py").write_text(API, encoding="utf-8")

    assert checker(tmp_path) == []


USER = """
from typing import reveal_type

from answerbus.answers.plan_proposal import DepBump, PlanProposal
from answerbus.client import Client
from answerbus.outcome import Result


async def version(client: Client) -> str | None:
    outcome = await client.ask("Propose one.", workflow_id="w", response_model=PlanProposal)
    if isinstance(outcome, Result) and isinstance(outcome.answer, DepBump):
        reveal_type(outcome.answer.target_version)
        wrong: int = outcome.answer.target_version
        print(wrong)
        return outcome.answer.target_version
    return None
"""
COMMANDS = {
    "mypy": ("mypy", "--strict", "--config-file=", "--python-executable", sys.executable),
    "pyright": ("pyright", "--pythonpath", sys.executable),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_checker_finds_the_types_in_the_environment_of_make_install(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """In a user's folder, told nothing but the interpreter: `str` is known, and its misuse."""
    (tmp_path / "app.py").write_text(USER, encoding="utf-8")
    search = ("MYPYPATH", "PYTHONPATH")
    around = {name: text for name, text in os.environ.items() if name not in search}  # noqa: TID251

    done = subprocess.run(
        [sys.executable, "-m", *command, "app.py"],
        cwd=tmp_path,
        env={**around, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    lines = [line for line in done.stdout.splitlines() if " error: " in line]
    assert len(lines) == 1, f"{done.stdout}{done.stderr}: was `.venv` made by `make install`?"
    assert "app.py:13:" in lines[0]
    assert 'is "str"' in done.stdout


@checkers
def test_an_unhandled_outcome_is_named(checker: Checker, tmp_path: Path) -> None:
    """Take the arm for dead letters away, and the match is no longer complete."""
    arm = "        case DeadLetter():\n            return outcome.cause.kind\n"
    assert API.count(arm) == 1
    (tmp_path / "client_api.py").write_text(API.replace(arm, ""), encoding="utf-8")

    found = checker(tmp_path)

    assert len(found) == 1
    assert "DeadLetter" in found[0]
    assert "Never" in found[0]
