"""The values that `enum` and `const` leave, as one scalar shape."""

import json
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from services.worker.core.json_schema.keywords import Draft
from services.worker.dialects.compiler.parsing.subschemas import Subschemas
from services.worker.dialects.compiler.shapes.rules import ALL_SCALARS, Rules
from services.worker.dialects.compiler.shapes.shape import Plain


def choices(subschemas: Subschemas) -> list[JsonValue] | None:
    """The values that every `enum` and `const` allows; None if there is neither."""
    allowed: dict[str, JsonValue] | None = None
    for listed in _listed(subschemas):
        named = {same(value): value for value in listed}
        if allowed is None:
            allowed = named
        else:
            allowed = {key: value for key, value in allowed.items() if key in named}
    return None if allowed is None else list(allowed.values())


def _listed(subschemas: Subschemas) -> Iterator[list[JsonValue]]:
    for atom in subschemas:
        enum = atom.get("enum")
        if isinstance(enum, list):
            yield enum
        # `const: null` is a rule too, so `get` cannot show whether there is one.
        if "const" in atom.schema and atom.draft > Draft.D4:
            yield [atom.schema["const"]]


def one_of(fitting: list[JsonValue], rules: Rules) -> list[Plain]:
    """One of several values.

    Where a dialect cannot list values of every type, each type is a scalar of its own.
    """
    if rules.enum_types >= ALL_SCALARS:
        return [_choice(fitting, rules)] if fitting else []
    kinds = dict.fromkeys(max(type_of(value)) for value in fitting)
    groups = {kind: [value for value in fitting if max(type_of(value)) == kind] for kind in kinds}
    return [
        _choice(group, rules) if kind in rules.enum_types else Plain({"type": kind})
        for kind, group in groups.items()
    ]


def is_looser(chosen: Sequence[Plain], values: Sequence[JsonValue]) -> bool:
    """Whether scalars that stand for values to choose from allow others too."""
    bare = {kind for shape in chosen if "enum" not in shape.schema for kind in shape.types}
    return not bare <= {"null", "boolean"} or ("boolean" in bare and not _both(values))


def _both(values: Sequence[JsonValue]) -> bool:
    return {value for value in values if isinstance(value, bool)} == {True, False}


def _choice(values: list[JsonValue], rules: Rules) -> Plain:
    names: list[JsonValue] = [*sorted({min(type_of(value)) for value in values})]
    if "number" in names and "integer" in names:
        names.remove("integer")
    kind = names[0] if len(names) == 1 else names
    if rules.is_long_enum(values):
        listed = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        return Plain({"type": kind, "description": f"One of {listed}"})
    return Plain({"type": kind, "enum": values}, any_case=rules.any_case)


def picked(shape: Plain, value: str) -> str:
    """The value to choose from that is meant, where a provider may have mistaken its case."""
    values = shape.schema.get("enum")
    listed = [item for item in values if isinstance(item, str)] if isinstance(values, list) else []
    if not shape.any_case or value in listed:
        return value
    alike = [item for item in listed if item.casefold() == value.casefold()]
    return alike[0] if len(alike) == 1 else value


def type_of(value: JsonValue) -> frozenset[str]:
    """The JSON Schema types that a value has: an integer is a number too."""
    match value:
        case None:
            return frozenset(["null"])
        case bool():
            return frozenset(["boolean"])
        case str():
            return frozenset(["string"])
        case list():
            return frozenset(["array"])
        case dict():
            return frozenset(["object"])
        case int():
            return frozenset(["integer", "number"])
        case _:
            return frozenset(["integer", "number"] if value.is_integer() else ["number"])


def types_of(subschemas: Subschemas) -> frozenset[str] | None:
    """The types that every `type` allows, integer only where number is not; None if all are."""
    allowed: set[str] | None = None
    for atom in subschemas:
        stated = atom.get("type")
        names = [stated] if isinstance(stated, str) else stated
        if isinstance(names, list):
            types = {name for name in names if isinstance(name, str)}
            types |= {"integer"} if "number" in types else set()
            allowed = types if allowed is None else allowed & types
    if allowed is not None and "number" in allowed:
        allowed.discard("integer")
    return None if allowed is None else frozenset(allowed)


def same(value: JsonValue) -> str:
    """A text that two values share exactly if JSON Schema calls them equal."""
    if isinstance(value, str):
        return f'"{value}'  # the text of no other value begins like that
    return json.dumps(_with_whole_numbers(value), sort_keys=True)


def _with_whole_numbers(value: JsonValue) -> JsonValue:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_whole_numbers(item) for item in value]
        case dict():
            return {name: _with_whole_numbers(member) for name, member in value.items()}
        case _:
            return value
