"""One JSON Schema with each type once, for generators of types in other languages; pure."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import JsonValue, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

Schema = dict[str, Any]
Types = Mapping[str, tuple[JsonSchemaMode, Any]]  # by name: whether it is read, or written by us

_LOCAL = "#/$defs/"
_ANY_JSON = "JsonValue"
_HINTS = frozenset({"title", "default", "discriminator"})
"""Keywords for which generators invent names, or write defaults that do not compile."""


def bundle(
    events: Types, answers: Types, generator: type[GenerateJsonSchema]
) -> dict[str, JsonValue]:
    """All events as one union, and the answers of contracts beside it."""
    inputs = [
        (name, mode, TypeAdapter[Any](form)) for name, (mode, form) in {**events, **answers}.items()
    ]
    roots, shared = TypeAdapter.json_schemas(inputs, schema_generator=generator)
    defs = {name: part for name, part in shared["$defs"].items() if name != _ANY_JSON}
    names = dict[str, str]()
    for (name, _), root in roots.items():
        place = root.get("$ref", name).removeprefix(_LOCAL)
        names[place] = name
        defs.setdefault(place, root)
    names = {name: _plain(name, names.values()) for name in defs} | names
    placed = {names[name]: _named(names[name], schema, names) for name, schema in defs.items()}
    unions = {"AnswerbusEvent": events, "AnswerbusAnswer": answers}
    for union, members in unions.items():
        placed[union] = {"anyOf": [{"$ref": _LOCAL + name} for name in members], "title": union}
    return {
        "$schema": generator.schema_dialect,
        "$id": "urn:answerbus:types.v1",
        "title": "AnswerbusType",
        "anyOf": [{"$ref": _LOCAL + union} for union in unions],
        "$defs": dict(sorted(placed.items())),
    }


def _plain(name: str, taken: Collection[str]) -> str:
    """Types as readers take them are laxer than as writers make them, and are named apart."""
    plain = name.removesuffix("-Output").replace("-", "")
    return f"{plain}Written" if plain in taken else plain


def _named(name: str, schema: Schema, names: Mapping[str, str]) -> Schema:
    return {**_placed(schema, names), "title": name}


def _placed(schema: Any, names: Mapping[str, str]) -> Any:
    match schema:
        case {"$ref": ref, **more} if ref == _LOCAL + _ANY_JSON:
            return _placed(more, names)
        case {"$ref": str(reference), **more}:
            return {"$ref": _LOCAL + names[reference.removeprefix(_LOCAL)], **_placed(more, names)}
        case dict():
            return {
                key: _members(inner, names) if key == "properties" else _placed(inner, names)
                for key, inner in schema.items()
                if key not in _HINTS
            }
        case list():
            return [_placed(inner, names) for inner in schema]
        case _:
            return schema


def _members(properties: Schema, names: Mapping[str, str]) -> Schema:
    return {name: _placed(schema, names) for name, schema in properties.items()}
