"""What a dialect can have enforced; all else is noted, and checked after."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ALL_SCALARS = frozenset(["string", "number", "boolean", "null"])


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What a provider enforces as JSON Schema means it.

    `number_bounds` and `list_sizes` are keywords, the latter with the largest number that each may
    have. `enum_types` are the types that values to choose from may be of.
    `omits_optional`: optional members are left out; else each is there, and null says "left out".
    `recursion`: whether a schema may refer to what it is inside of, or from optional members only.
    `optional_max` and `unions_max` bound what one schema may have of them, None for no bound.
    `any_case`: values to choose from may come back in upper or lower case.
    """

    dialect: str
    formats: frozenset[str] = frozenset()
    patterns: bool = False
    number_bounds: frozenset[str] = frozenset()
    list_sizes: Mapping[str, int] = field(default_factory=dict)
    enum_types: frozenset[str] = ALL_SCALARS
    omits_optional: bool = False
    recursion: Literal["anywhere", "optional", "nowhere"] = "anywhere"
    optional_max: int | None = None
    unions_max: int | None = None
    any_case: bool = False
