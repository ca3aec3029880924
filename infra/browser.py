"""The path of a Chromium: given, found, Playwright's own, or installed with apt if permitted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra.cache import cache_folder, file_lock
from infra.setup_error import SetupError

OWN = "CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL_LIMIT_S = 600.0
_ROOT = 0


def chromium() -> Path:
    """An executable. SetupError: there is none and none could be installed."""
    own = os.getenv(OWN)
    if own:
        if not Path(own).is_file():
            raise SetupError(f"{OWN}={own} is no file: unset it to look for another browser.")
        return Path(own)
    if path := _found():
        return path
    with file_lock(cache_folder() / "chromium.lock"):  # of two installers at once, apt refuses one
        return _found() or _installed()


def _found() -> Path | None:
    for name in _NAMES:
        if path := shutil.which(name):
            return Path(path)
    return _playwrights()


def _playwrights() -> Path | None:
    """Where Playwright keeps its own, if it has fetched it."""
    folder = os.getenv("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    return next(iter(sorted(Path(folder).glob("chromium-*/chrome-linux*/chrome"))), None)


def _installed() -> Path:
    if os.geteuid() == _ROOT and shutil.which("apt-get"):
        commands = [["apt-get", "update"], ["apt-get", "install", "--yes", "chromium"]]
    else:
        commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    message = ""
    for command in commands:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            message = str(error)
            continue
        message = done.stderr.strip()
    if path := _found():
        return path
    raise SetupError(
        "The console's tests need a Chromium, and none could be installed "
        f"({message.splitlines()[-1] if message else 'no reason given'}): install one "
        f"(on Debian and Ubuntu, apt-get install chromium), or name its path in {OWN}."
    )
