"""A table of the settings file."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, TypeAdapter, ValidationError

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class Section(BaseModel):
    """A table of the file; unknown names are errors, so that a misspelt one does not go unseen.

    TOML has `inf` and `nan`; no time and no price can be computed with them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return _JSON.validate_json(value)
    except ValidationError:
        raise ValueError('must be JSON in a variable, such as ["a", "b"] or {"a": "b"}') from None


JSON_IN_VARIABLE = BeforeValidator(_parsed)  # of a list or a table: a variable holds text
