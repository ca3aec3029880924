"""A table of the settings file, and the types of its values.

Pydantic alone would read `true` as 1, "0.5" as a number and "" as the working folder.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

DAY_S = 86_400  # no request lives longer, so that nothing need wait longer
MICRO_USD = 1_000_000  # millionths of a dollar: what is counted
COUNT_MAX = 1_000_000_000  # more than any machine has of anything that a setting counts
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class VariableText(str):
    """What a variable holds: a text, also for a number. In the file, values have types."""

    __slots__ = ()


class Section(BaseModel):
    """A table of the file; unknown names are errors, so that a misspelt one does not go unseen.

    TOML has `inf` and `nan`; no time and no price can be computed with them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read_from_variable(cls, table: Any) -> Any:
        return json_in_variable(table) if isinstance(table, VariableText) else table


def _number(value: Any) -> Any:
    if type(value) not in {int, float, VariableText}:
        raise ValueError("must be a number, such as 5, without quotes")
    return value


def _flag(value: Any) -> Any:
    if type(value) not in {bool, VariableText}:
        raise ValueError("must be true or false, without quotes")
    return value


def _counted(usd: float) -> float:
    if 0 < usd * MICRO_USD <= 0.5:  # which is rounded to 0
        raise ValueError("must be 0, or at least 0.000001: less of a dollar is not counted")
    return usd


def _not_empty(value: Any) -> Any:
    if value == "":
        raise ValueError("must not be empty: give a value, or leave it out for the default")
    return value


Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
UsdLimit = Annotated[Number, AfterValidator(_counted)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Text = Annotated[str, BeforeValidator(_not_empty)]
FileName = Annotated[Path, BeforeValidator(_not_empty)]


def json_in_variable(value: Any) -> Any:
    """A list or a table of the file as it is, and of a variable what its text says."""
    if type(value) is str:
        raise ValueError('must be a list or a table, such as ["a", "b"] or {a = "b"}')
    if not isinstance(value, VariableText):
        return value
    try:
        return _JSON.validate_json(value)
    except ValidationError:
        raise ValueError('must be JSON in a variable, such as ["a", "b"] or {"a": "b"}') from None


JSON_IN_VARIABLE = BeforeValidator(json_in_variable)  # of a list or a table: a variable holds text


def _whole_numbers(table: Any) -> Any:
    """Those of a table of an event, which takes no 5.0, as Helm writes 5, and no text."""
    if not isinstance(table, dict):
        return table
    return {name: _as_whole(value) for name, value in table.items()}


def _as_whole(value: Any) -> Any:
    if isinstance(value, VariableText) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE_NUMBERS = BeforeValidator(_whole_numbers)
