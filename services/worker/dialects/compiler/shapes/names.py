"""Makes names that providers accept from any text."""

import re

NAME_CHARS_MAX = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_MARKS = re.compile(r"[^A-Za-z0-9]+")


def portable_name(text: str, otherwise: str) -> str:
    """`text` with foreign characters as underscores, cut to the limit; never empty."""
    return _FOREIGN.sub("_", text)[:NAME_CHARS_MAX].strip("_") or otherwise


class ShapeNames:
    """Hands out names of dead letters and digits, none of them twice.

    llama.cpp puts further marks behind such names where it needs names of its own.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, pointer: str) -> str:
        """A name for what is at a JSON pointer."""
        base = _MARKS.sub("", pointer.rpartition("/")[2])[:NAME_CHARS_MAX] or "root"
        name, number = base, 2
        while name in self._taken:
            suffix = f"x{number}"
            name, number = base[: NAME_CHARS_MAX - len(suffix)] + suffix, number + 1
        self._taken.add(name)
        return name
