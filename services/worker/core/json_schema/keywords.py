"""Where JSON Schema keeps schemas inside a schema: the table that every walk here goes by."""

from collections.abc import Iterator
from enum import IntEnum

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
AnySchema = JsonObject | bool
Step = str | int


class Draft(IntEnum):
    """The drafts that an inline schema may be written in."""

    D4 = 4
    D6 = 6
    D7 = 7
    D2019 = 2019
    D2020 = 2020


_DRAFTS = {
    "json-schema.org/draft-04/schema": Draft.D4,
    "json-schema.org/draft-06/schema": Draft.D6,
    "json-schema.org/draft-07/schema": Draft.D7,
    "json-schema.org/draft/2019-09/schema": Draft.D2019,
    "json-schema.org/draft/2020-12/schema": Draft.D2020,
}

IN_PLACE_ONE = frozenset(["not", "if", "then", "else"])
IN_PLACE_LIST = frozenset(["allOf", "anyOf", "oneOf"])
IN_PLACE_NAMED = frozenset(["dependentSchemas", "dependencies"])
EACH_ITEM = frozenset(["items", "additionalItems", "contains", "unevaluatedItems"])
EACH_MEMBER = frozenset(["additionalProperties", "unevaluatedProperties"])
STORES = frozenset(["$defs", "definitions"])  # these apply to nothing unless referred to

REFERENCES = frozenset(["$ref", "$dynamicRef", "$recursiveRef"])

ONE = IN_PLACE_ONE | EACH_ITEM | EACH_MEMBER | {"propertyNames", "contentSchema"}
LIST = IN_PLACE_LIST | {"prefixItems", "items"}
NAMED = IN_PLACE_NAMED | STORES | {"properties", "patternProperties"}


def draft_of(schema: JsonValue) -> Draft | None:
    """The draft that a schema says it is written in, 2020-12 if it does not; None if unknown."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return Draft.D2020
    declared = schema["$schema"]
    if not isinstance(declared, str):
        return None
    _, _, place = declared.removesuffix("#").partition("://")
    return _DRAFTS.get(place) if declared.startswith(("http://", "https://")) else None


def subschemas(schema: JsonObject) -> Iterator[tuple[tuple[Step, ...], AnySchema]]:
    """Every schema directly inside `schema`, with the steps that lead to it."""
    for keyword, value in schema.items():
        if keyword in ONE and isinstance(value, dict | bool):
            yield (keyword,), value
        elif keyword in LIST and isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict | bool):
                    yield (keyword, index), item
        elif keyword in NAMED and isinstance(value, dict):
            for name, member in value.items():
                if isinstance(member, dict | bool):
                    yield (keyword, name), member


def reference(schema: JsonObject) -> str | None:
    """The `$ref` of a schema, if it has one."""
    ref = schema.get("$ref")
    return ref if isinstance(ref, str) else None
