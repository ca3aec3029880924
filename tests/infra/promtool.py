"""Prometheus' own checks of rules."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.setup_error import SetupError
from tests.alerts.prometheus import program

LIMIT_S = 300  # the longest takes 15 s of a core


def run_promtool(*arguments: str | Path) -> None:
    """Fail where it does, and skip where there is none."""
    try:
        promtool = program("promtool")
    except SetupError as error:
        pytest.skip(f"no promtool: {error}")
    done = subprocess.run(
        [promtool, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def run_rule_tests(rules: Path, tests: list[dict[str, Any]], folder: Path) -> None:
    """Run tests of the rules in a file, each with series and what fires when."""
    file = folder / "tests.yml"
    document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    run_promtool("test", "rules", file)
