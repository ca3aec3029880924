"""What a dialect can have enforced; all else is noted, and checked after."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The keywords on scalars and lists that a provider enforces as JSON Schema means them."""

    dialect: str
    formats: frozenset[str]
    patterns: bool
    number_bounds: bool
    list_sizes: bool
