"""The rules of a schema that a later one may not tighten, one keyword at a time."""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from infra.breaking.alternatives import JsonObject

_LOWER = frozenset(
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"]
)
_UPPER = frozenset(
    ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"]
)
_WORDS = frozenset(["title", "description", "default", "examples", "$comment", "deprecated"])
_STRUCTURE = frozenset(
    ["$schema", "$id", "$defs", "$ref", "discriminator", "anyOf", "oneOf", "type", "enum", "const"]
)
_INSIDE = frozenset(["properties", "required", "additionalProperties", "items", "prefixItems"])
_TYPES = frozenset(["array", "boolean", "integer", "null", "number", "object", "string"])


def tightened(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, str]]:
    """Each keyword that rules out what was allowed before, with what happened to it."""
    for kind in sorted(types(old) - types(new)):
        yield "type", f"no longer allows the type {kind}"
    yield from _values(old, new)
    for keyword in sorted(new.keys() - _WORDS - _STRUCTURE - _INSIDE):
        before, now = old.get(keyword), new[keyword]
        if before == now:
            continue
        if keyword in _LOWER | _UPPER and _is_looser(keyword, before, now):
            continue
        was = "is new" if before is None else f"was {json.dumps(before)}"
        yield keyword, f"`{keyword}` is {json.dumps(now)} and {was}"


def types(schema: JsonObject) -> frozenset[str]:
    """The JSON types that a schema allows; numbers include integers."""
    stated = schema.get("type")
    named = [stated] if isinstance(stated, str) else stated
    if not isinstance(named, list):
        return _of_values(schema)
    found = frozenset(str(kind) for kind in named)
    return found | {"integer"} if "number" in found else found


def values(schema: JsonObject) -> list[JsonValue] | None:
    """The values that a schema lists; None if it lists none."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else None


def _of_values(schema: JsonObject) -> frozenset[str]:
    """A list of values says what may be there by itself."""
    return _TYPES if values(schema) is None else frozenset()


def _values(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, str]]:
    before, now = values(old), values(new)
    keyword = "const" if "const" in new else "enum"
    if now is None:
        return
    if before is None:
        yield keyword, f"allows nothing but {json.dumps(now)}"
        return
    for value in before:
        if value not in now:
            yield keyword, f"no longer allows {json.dumps(value)}"


def _is_looser(keyword: str, before: JsonValue, now: JsonValue) -> bool:
    if not isinstance(before, int | float) or not isinstance(now, int | float):
        return False
    return now <= before if keyword in _LOWER else now >= before
