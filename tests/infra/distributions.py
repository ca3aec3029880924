"""Both distributions built from what git knows, as files that others install."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACTS, SERVICES = ROOT / "contracts", ROOT
LIMIT_S = 300
_PARTS = ("services", "pyproject.toml", "README.md", "LICENSE")  # of the services' distribution


def run(*command: str, limit_s: float = LIMIT_S) -> str:
    """What a command prints; it must succeed."""
    around = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}  # noqa: TID251
    done = subprocess.run(
        command, env=around, capture_output=True, text=True, timeout=limit_s, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def pip(*arguments: str) -> str:
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)


def copied(source: Path, folder: Path, *parts: str) -> Path:
    """A source tree without what a build leaves in it."""
    files = run(
        *("git", "-C", str(source), "ls-files", "--cached", "--others", "--exclude-standard"),
        *("-z", "--", *parts),
    )
    for name in filter(None, files.split("\0")):
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((source / name).read_bytes())
    return folder


def build_wheel(source: Path, work: Path, dist: Path) -> Path:
    """The wheel alone of one of the two, which is quick."""
    tree = copied(source, work, *(_PARTS if source == SERVICES else ()))
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(dist)]
    before = set(dist.glob("*.whl"))
    pip("wheel", *options, str(tree))
    (wheel,) = set(dist.glob("*.whl")) - before
    return wheel


def build_both(source: Path, work: Path, dist: Path) -> Sequence[Path]:
    """The sdist, and the wheel that is made of it: what the sdist lacks, the wheel lacks."""
    tree = copied(source, work, *(_PARTS if source == SERVICES else ()))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(tree))
    return sorted(dist.iterdir())
