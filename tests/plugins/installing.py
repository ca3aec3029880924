"""Distributions that are really there for a test: by pip, or as importlib.metadata reads them."""

import shutil
import subprocess
import sys
from pathlib import Path

TICKETS = Path(__file__).parent / "tickets"


def install_tickets(folder: Path) -> Path:
    """The plugin of the tests, built and installed by pip; gives the folder to import from."""
    return install(TICKETS, folder)


def install(distribution: Path, folder: Path) -> Path:
    """A distribution's folder, built and installed by pip; gives the folder to import from."""
    source, target = folder / "source", folder / "installed"
    shutil.copytree(distribution, source)  # a build leaves files beside what it builds
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return target


def write_plugin(
    folder: Path, name: str, entry: str, source: str, group: str = "answerbus.contracts"
) -> None:
    """A distribution `name` 1.0 whose only module is `source`, with one entry point."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
