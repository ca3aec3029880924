"""The cache of answerbus outside of the checkout, and the lock that guards a download."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.setup_error import SetupError


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/answerbus`, or `~/.cache/answerbus`; it may not exist yet."""
    base = os.getenv("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "answerbus"


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold `path` alone among all processes; the system frees it if its holder dies.

    SetupError: the folder cannot be made or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        remedy = ": let XDG_CACHE_HOME name another folder" if _is_cached(path) else ""
        reason = error.strerror
        raise SetupError(f"{path.parent} cannot be written ({reason}){remedy}.") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_cached(path: Path) -> bool:
    return path.is_relative_to(cache_folder())
