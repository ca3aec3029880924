"""Runs a command with the oldest libraries that the contracts and their client take.

`python -m infra.floors COMMAND`. These libraries are installed into a folder of their own, which
the command, and each Python that it starts, imports from first.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from infra import pip_progress

LOCK, FOLDER = Path("requirements-floors.lock"), Path(".run/floors")
_INSTALL = ("install", "--require-hashes", "--no-deps", "--no-compile")


def install() -> int:
    """Install them, unless those of this lock are there; gives pip's exit code."""
    done = FOLDER / LOCK.name
    if done.exists() and done.read_bytes() == LOCK.read_bytes():
        return 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    code = pip_progress.run([*_INSTALL, "--target", str(FOLDER), "--requirement", str(LOCK)])
    if not code:
        shutil.copy(LOCK, done)
    return code


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The same variables, with the folder before all others."""
    others = [inherited["PYTHONPATH"]] if inherited.get("PYTHONPATH") else []
    return {**inherited, "PYTHONPATH": os.pathsep.join([str(FOLDER.resolve()), *others])}


def main(command: list[str]) -> None:
    """Become the command, unless the libraries cannot be installed."""
    if code := install():
        sys.exit(code)
    os.execvpe(command[0], command, environment(os.environ))  # noqa: TID251 - as it is inherited


if __name__ == "__main__":
    main(sys.argv[1:])
