"""Measures a wire schema against the limits that providers document."""

from collections.abc import Iterator

from pydantic import JsonValue

from services.worker.dialects.compiler.shapes.shape import JsonObject


def schemas_in(schema: JsonValue, level: int = 0) -> Iterator[tuple[JsonObject, int]]:
    """Each schema with the number of objects it is inside of, itself included."""
    if not isinstance(schema, dict):
        return
    level += "properties" in schema
    yield schema, level
    for inner in (*values_in(schema.get("properties")), *values_in(schema.get("anyOf"))):
        yield from schemas_in(inner, level)
    yield from schemas_in(schema.get("items"), level)
    yield from schemas_in(schema.get("additionalProperties"), level)
    for inner in values_in(schema.get("$defs")):
        yield from schemas_in(inner, 0)


def names_in(named: JsonValue) -> list[str]:
    """The names of an object's members."""
    return list(named) if isinstance(named, dict) else []


def values_in(inner: JsonValue) -> list[JsonValue]:
    """The items of a list, or the values of an object's members."""
    match inner:
        case dict():
            return list(inner.values())
        case list():
            return inner
        case _:
            return []


def name_chars(schema: JsonObject) -> int:
    """The characters of property names and of values to choose from, in all of a schema."""
    schemas = [inner for inner, _ in schemas_in(schema)]
    names = [name for inner in schemas for name in names_in(inner.get("properties"))]
    enums = [str(value) for inner in schemas for value in values_in(inner.get("enum"))]
    return sum(map(len, [*names, *enums]))


def optional_members(schema: JsonObject) -> int:
    """The members that may be left out, in all of a schema."""
    return sum(
        len(names_in(inner.get("properties"))) - len(values_in(inner.get("required")))
        for inner, _ in schemas_in(schema)
    )


def unions(schema: JsonObject) -> int:
    """The schemas that allow several types or alternatives, in all of a schema."""
    return sum(
        "anyOf" in inner or isinstance(inner.get("type"), list) for inner, _ in schemas_in(schema)
    )
