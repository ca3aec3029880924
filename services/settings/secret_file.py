"""A secret in a file, read again when the file changes."""

import os
from pathlib import Path
from typing import Protocol

BYTES_MAX = 64 * 1024
KEPT = 8  # of the values that it has had: a server may still echo one of those


class ChangingSecret(Protocol):
    """A secret that has another value now and then; `values` are the last ones."""

    @property
    def value(self) -> str:
        """The present one, after a look."""
        ...

    @property
    def values(self) -> tuple[str, ...]: ...


class UnreadableSecret(Exception):
    """The file is not there, or holds nothing; the text says why."""


class SecretFile:
    """`values` are those that were read, the newest last.

    A file that is gone for a moment, or empty while it is written, changes nothing.
    """

    def __init__(self, path: Path) -> None:
        """Raises UnreadableSecret."""
        self.path = path
        self.values: tuple[str, ...] = ()
        self._seen: tuple[int, ...] = ()
        self.reload()
        if not self.values:
            raise UnreadableSecret(_read_error(path))

    @property
    def value(self) -> str:
        if self._seen != file_state(self.path):
            self.reload()
        return self.values[-1]

    def reload(self) -> None:
        """Read it, also where it seems to be the same."""
        self._seen = file_state(self.path)  # before: what is written meanwhile is another state
        found = _content(self.path)
        if found and (not self.values or found != self.values[-1]):
            self.values = (*self.values, found)[-KEPT:]


def file_state(path: Path) -> tuple[int, ...]:
    """The state of the file, which changes when it does; empty where it is missing.

    A link is followed.
    """
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _content(path: Path) -> str | None:
    """Its one line, without the break that editors put behind it."""
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX).decode().strip("\r\n") or None
    except (OSError, ValueError):
        return None


def _read_error(path: Path) -> str:
    try:
        is_empty = not path.read_bytes().strip(b"\r\n")
    except OSError as error:
        return f"{path} cannot be read: {os.strerror(error.errno or 0)}"
    return f"{path} is empty" if is_empty else f"{path} is not UTF-8 text"
