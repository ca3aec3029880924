"""What a fuzzing target is: bytes go in, and what must hold of them is asserted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """`check` raises where a promise is broken; `seeds` are inputs to begin from."""

    name: str
    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
