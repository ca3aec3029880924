"""Values to choose from: what `enum` and `const` leave, as one scalar shape."""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from services.worker.core.keywords import Draft
from services.worker.dialects.atoms import Atoms
from services.worker.dialects.shape import Never, Plain


def choices(atoms: Atoms) -> list[JsonValue] | None:
    """The values that every `enum` and `const` allows; None if there is neither."""
    allowed: dict[str, JsonValue] | None = None
    for listed in _listed(atoms):
        named = {same(value): value for value in listed}
        if allowed is None:
            allowed = named
        else:
            allowed = {key: value for key, value in allowed.items() if key in named}
    return None if allowed is None else list(allowed.values())


def _listed(atoms: Atoms) -> Iterator[list[JsonValue]]:
    for atom in atoms:
        enum = atom.get("enum")
        if isinstance(enum, list):
            yield enum
        # `const: null` is a rule too, so that `get` cannot tell whether there is one.
        if "const" in atom.schema and atom.draft > Draft.D4:
            yield [atom.schema["const"]]


def one_of(values: list[JsonValue], types: frozenset[str] | None) -> Plain | Never:
    """One of several scalars, of those that are of the right type."""
    fitting = [value for value in values if types is None or type_of(value) & types]
    if not fitting:
        return Never()
    names: list[JsonValue] = [*sorted({min(type_of(value)) for value in fitting})]
    if "number" in names and "integer" in names:
        names.remove("integer")
    return Plain({"type": names[0] if len(names) == 1 else names, "enum": fitting})


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


def types_of(atoms: Atoms) -> frozenset[str] | None:
    """The types that every `type` allows, integer only where number is not; None if all are."""
    allowed: set[str] | None = None
    for atom in atoms:
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
