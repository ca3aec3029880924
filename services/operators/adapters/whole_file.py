"""A file that is written whole or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EEXIST
from os import strerror
from os.path import lexists
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


def write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file, in the place of one that is there. Raises OSError, and then leaves nothing.

    What leads elsewhere, such as a link or `/dev/stdout`, is written to as it is.
    """
    if is_elsewhere(path):
        with path.open("wb") as file:
            file.writelines(parts)
        return
    with whole_file(path) as file:
        file.writelines(parts)


@contextmanager
def whole_file(path: Path, *, is_new: bool = False) -> Iterator[BinaryIO]:
    """A file that has its name once it is whole, so that a process that is killed leaves no part.

    Raises OSError, FileExistsError if it `is_new` and there is one by then, and leaves nothing.
    """
    partial = path.with_name(f".{uuid4().hex}.partial")  # in a container all have process id 1
    try:
        with partial.open("xb") as file:
            yield file
        _rename(partial, path, is_new=is_new)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == str(partial):
            error.filename = str(path)  # the name that its user knows
        partial.unlink(missing_ok=True)
        raise


def _rename(partial: Path, path: Path, *, is_new: bool) -> None:
    if is_new and lexists(path):  # a link that leads nowhere is there, too
        raise FileExistsError(EEXIST, strerror(EEXIST), str(path))
    partial.replace(path)


def is_elsewhere(path: Path) -> bool:
    """Whether it is a link, a pipe or a device, in whose place no file may come."""
    return path.is_symlink() or (path.exists() and not path.is_file())
