"""Finds a name that settings do not have, and the one that was probably meant; pure."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

_ALIKE_MIN = 0.6  # of 1: how alike two names must be


class Unknown(NamedTuple):
    """Where an unknown name stands, and the known one that looks most like it."""

    path: tuple[str, ...]
    meant: str | None


def first_unknown(error: ValidationError, model: type[BaseModel]) -> Unknown | None:
    """The first unknown name that a validation of `model` has met."""
    for details in error.errors(include_url=False, include_input=False, include_context=False):
        if details["type"] == "extra_forbidden":
            return _unknown(details["loc"], model.model_json_schema())
    return None


def _unknown(location: Sequence[str | int], schema: Mapping[str, Any]) -> Unknown:
    definitions = schema.get("$defs", {})
    *tables, name = map(str, location)
    here, path = schema, []
    for part in tables:
        here, is_tag = _inside(here, part, definitions)
        if not is_tag:
            path.append(part)
    close = get_close_matches(name.lower(), here.get("properties", {}), n=1, cutoff=_ALIKE_MIN)
    return Unknown((*path, name), close[0] if close else None)


def _inside(
    here: Mapping[str, Any], part: str, definitions: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bool]:
    """The table of that name; or the one of a union's tables that has this tag."""
    tags = here.get("discriminator", {}).get("mapping", {})
    if part in tags:
        return _resolved({"$ref": tags[part]}, definitions), True
    named = next(iter(here.get("patternProperties", {}).values()), None)  # names of our choice
    inside = here.get("properties", {}).get(part) or named or here.get("additionalProperties")
    return _resolved(inside or {}, definitions), False


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a reference, and without `null` beside the one table that it may be."""
    if "anyOf" in schema:
        schema = next((one for one in schema["anyOf"] if "$ref" in one), schema)
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema
