"""Matches the alternatives of an old schema to those of the new schema."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
_KEYWORDS = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Found:
    """A schema without a reference at its top, and the JSON pointer to it."""

    pointer: str
    schema: JsonObject


def resolved(root: JsonObject, found: Found) -> Found:
    """What a reference leads to, with what is said beside it."""
    ref = found.schema.get("$ref")
    if not isinstance(ref, str):
        return found
    place: JsonValue = root
    for step in ref.removeprefix("#/").split("/"):
        place = place[step] if isinstance(place, dict) else None
    beside = {keyword: value for keyword, value in found.schema.items() if keyword != "$ref"}
    target = place if isinstance(place, dict) else {}
    return resolved(root, Found(ref.removeprefix("#"), target | beside))


def alternatives(root: JsonObject, found: Found) -> list[Found]:
    """The schemas of which a value has one; a schema that is no union is the only one."""
    found = resolved(root, found)
    for keyword in _KEYWORDS:
        branches = found.schema.get(keyword)
        if isinstance(branches, list):
            inner = [
                Found(f"{found.pointer}/{keyword}/{index}", branch)
                for index, branch in enumerate(branches)
                if isinstance(branch, dict)
            ]
            return [leaf for branch in inner for leaf in alternatives(root, branch)]
    return [found]


def by_name(root: JsonObject, found: Found) -> dict[str, Found]:
    """The alternatives by what tells them apart: a tag, a constant, a title, a type."""
    named: dict[str, Found] = {}
    for alternative in alternatives(root, found):
        names = (name for name in _names(root, alternative) if name not in named)
        named[next(names, f"alternative {alternative.pointer}")] = alternative
    return named


def _names(root: JsonObject, found: Found) -> Iterator[str]:
    schema = found.schema
    if "const" in schema:
        yield json.dumps(schema["const"])
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        if isinstance(member, dict):
            shape = resolved(root, Found("", member)).schema
            if "const" in shape:
                yield f"{name} {json.dumps(shape['const'])}"
    for keyword in ("title", "type"):
        if isinstance(schema.get(keyword), str):
            yield str(schema[keyword])
