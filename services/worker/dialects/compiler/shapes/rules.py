"""The rules that a dialect can have enforced; others are noted, and checked later."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from services.worker.dialects.compiler.shapes.shape import JsonObject

ALL_SCALARS = frozenset(["string", "number", "boolean", "null"])


def no_excess(_schema: JsonObject) -> str | None:
    return None


def no_limit(_values: Sequence[JsonValue]) -> bool:
    return False


def no_pattern(_pattern: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The keywords that a provider enforces as JSON Schema means them.

    `format_patterns` are sent beside formats that a provider does not know well enough.
    `pattern` writes a pattern as the provider takes it, None for one that it does not.
    `integer_bounds` and `number_bounds` are keywords; so are `text_lengths` and `list_sizes`, with
    the largest number that each may have. `enum_types` are the types that values to choose from may
    be of, and `is_long_enum` says which lists of them the provider does not take.
    `one_text_rule`: a text has a pattern, or a format, or lengths.
    `verbatim`: an answer is written as it is meant: free-form values as any JSON, members without a
    name of their own beside the others. Else such travel as JSON text. Such a provider has room
    for everything, and follows references in circles.
    `integer_max` is the largest integer that a provider allows, sent as the other bound
    where one alone is misread.
    `open_name_chars_max` bounds the names in one object that may have others beside them, where
    such travel as themselves.
    `omits_optional`: optional members are left out; else each is there, and null says "left out".
    `recursion`: whether a schema may refer to what it is inside of, or from optional members only.
    `optional_max` and `unions_max` bound what one schema may have of them, None for no bound.
    `any_case`: values to choose from may come back in upper or lower case.
    `excess` gives the quantity to reduce, if a wire schema is beyond a limit.
    """

    dialect: str
    excess: Callable[[JsonObject], str | None] = no_excess
    formats: frozenset[str] = frozenset()
    format_patterns: Mapping[str, str] = field(default_factory=dict)
    pattern: Callable[[str], str | None] = no_pattern
    integer_bounds: frozenset[str] = frozenset()
    number_bounds: frozenset[str] = frozenset()
    text_lengths: Mapping[str, int] = field(default_factory=dict)
    list_sizes: Mapping[str, int] = field(default_factory=dict)
    one_text_rule: bool = False
    enum_types: frozenset[str] = ALL_SCALARS
    is_long_enum: Callable[[Sequence[JsonValue]], bool] = no_limit
    verbatim: bool = False
    integer_max: int | None = None
    open_name_chars_max: int = 0
    omits_optional: bool = False
    recursion: Literal["anywhere", "optional", "nowhere"] = "anywhere"
    optional_max: int | None = None
    unions_max: int | None = None
    any_case: bool = False

    @property
    def keeps_null(self) -> bool:
        """Whether an optional member may be null as well as left out; room for unions is dear."""
        return self.omits_optional and self.unions_max is None

    def __post_init__(self) -> None:
        """Cut or packed values travel as JSON text, which no reader would decode."""
        if self.verbatim and (self.recursion != "anywhere" or self.optional_max is not None):
            raise ValueError(f"{self.dialect}: verbatim, and yet not everything can be carried")
