"""The command `python -m tests.changes [NAME ...]`: make each change in a copy, and check it.

With all of them, or with `--rows` alone, the rows of docs/architecture.md are written.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.changes.trials import ORDER, PAGE, ROOT, Trial, page, trial

CHECKS = ("-m", "infra.checks", "shape", "lint", "types", "arch")
COMMIT = ("-c", "user.name=trials", "-c", "user.email=trials@localhost", "commit", "--quiet")


def main(arguments: Sequence[str]) -> int:
    """Run the trials; 1 if one failed."""
    names = [name for name in arguments if name != "--rows"] or list(ORDER)
    if unknown := set(names) - set(ORDER):
        _say(f"no such change: {', '.join(sorted(unknown))}; there are: {', '.join(ORDER)}")
        return 2
    if "--rows" not in arguments:
        with TemporaryDirectory() as folder:
            copy = Path(folder)
            _copy_tree(copy)
            failed = [name for name in names if not _passes(copy, trial(name))]
        _say(f"{len(names) - len(failed)} of {len(names)} changes pass; failed: {failed or 'none'}")
        if failed:
            return 1
    if names == list(ORDER):
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def _copy_tree(copy: Path) -> None:
    """The tracked files as they are now, as a repository of its own: so they can be restored."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    _git(copy, "init", "--quiet")
    _git(copy, "add", "--all")
    _git(copy, *COMMIT, "--no-verify", "--message", "the tree before each change")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _git(copy: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=copy, check=True)


def _passes(copy: Path, tried: Trial) -> bool:
    _git(copy, "reset", "--quiet", "--hard")
    _git(copy, "clean", "--quiet", "--force", "-d")
    _git(copy, "apply", str(tried.patch))
    steps = [
        *(_command(command) for command in tried.commands),
        [sys.executable, *CHECKS],
        [sys.executable, "-m", "pytest", "--quiet", "tests/rules", *tried.tests],
    ]
    for step in steps:
        _say(f"{tried.patch.stem}: {shlex.join(step)}")
        if subprocess.run(step, cwd=copy, env=_environment(copy), check=False).returncode:
            return False
    return True


def _command(command: str) -> list[str]:
    """As the page says it, with the programs of this environment."""
    program, *arguments = shlex.split(command)
    if program == "make":
        environment = [f"VENV={sys.prefix}", f"RUN={sys.executable}"]
        return ["make", "--old-file=install", *environment, *arguments]
    return [sys.executable, *arguments]


def _environment(copy: Path) -> dict[str, str]:
    paths = os.pathsep.join(map(str, (copy, copy / "contracts")))
    return {**os.environ, "PYTHONPATH": paths}  # noqa: TID251 - the programs need all else


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
