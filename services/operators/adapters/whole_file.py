"""A file that is written whole or not at all."""

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file, in the place of one that is there. Raises OSError, and then leaves nothing.

    What leads elsewhere, such as a link or `/dev/stdout`, is written to as it is.
    """
    if is_elsewhere(path):
        with path.open("wb") as file:
            file.writelines(parts)
        return
    partial = path.with_name(f".{uuid4().hex}.partial")  # in a container all have process id 1
    try:
        with partial.open("xb") as file:
            file.writelines(parts)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def is_elsewhere(path: Path) -> bool:
    """Whether it is a link, a pipe or a device, in whose place no file may come."""
    return path.is_symlink() or (path.exists() and not path.is_file())
