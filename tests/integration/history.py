"""Versions out of the history, which run beside this one."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def is_in_history(version: str) -> bool:
    """Whether this checkout has it: a shallow one has the last alone."""
    command = ["git", "cat-file", "-e", f"{version}^{{commit}}"]
    return not subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode


def tree_of(version: str, folder: Path) -> Path:
    """All files of a version, in `folder`, which is made."""
    archive = subprocess.run(["git", "archive", version], cwd=ROOT, check=True, capture_output=True)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def variables_of(tree: Path) -> dict[str, str]:
    """The environment in which Python imports from that tree, from wherever it is started."""
    return {"PYTHONPATH": f"{tree}:{tree / 'contracts'}", "PYTHONSAFEPATH": "1"}
