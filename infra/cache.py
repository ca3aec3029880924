"""The cache of answerbus outside of the checkout, and the lock that guards a download."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/answerbus`, or `~/.cache/answerbus`; it may not exist yet."""
    base = os.getenv("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "answerbus"


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold `path` alone among all processes; the system frees it if its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
