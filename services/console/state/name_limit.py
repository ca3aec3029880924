"""Bounds the number of distinct names from outside; the rest are counted as others; pure."""

from collections.abc import Hashable
from typing import Generic, TypeVar, cast

OTHERS = "(others)"
NONE = "–"

NameT = TypeVar("NameT", bound=Hashable)


class NameLimit(Generic[NameT]):
    """Names are strings, or pairs of strings."""

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._names: set[NameT] = set()

    def admitted(self, name: NameT) -> NameT:
        """The name itself, or that of the others."""
        if name in self._names:
            return name
        if len(self._names) >= self._names_max:
            return cast("NameT", (OTHERS, OTHERS) if isinstance(name, tuple) else OTHERS)
        self._names.add(name)
        return name
