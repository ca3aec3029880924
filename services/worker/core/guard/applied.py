"""Which schemas inside a schema are applied to which parts of a value, as far as may be."""

from collections.abc import Iterator

from pydantic import JsonValue

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import (
    EACH_ITEM,
    EACH_MEMBER,
    IN_PLACE_LIST,
    IN_PLACE_NAMED,
    IN_PLACE_ONE,
    AnySchema,
    JsonObject,
    reference,
)

Pair = tuple[AnySchema, JsonValue]


def in_place(document: Document, schema: JsonObject) -> Iterator[AnySchema]:
    """The schemas that apply to the same value as `schema`."""
    ref = reference(schema)
    target = None if ref is None else document.target(ref)
    if target is not None:
        yield target
    if document.ignores_siblings(schema):
        return
    for keyword, value in schema.items():
        if keyword in IN_PLACE_ONE:
            yield from _schemas([value])
        elif keyword in IN_PLACE_LIST:
            yield from _schemas(value)
        elif keyword in IN_PLACE_NAMED and isinstance(value, dict):
            yield from _schemas(list(value.values()))


def inside(schema: JsonObject, instance: JsonValue) -> Iterator[Pair]:
    """The schemas for members and items of the value, each with its member or item."""
    match instance:
        case dict():
            yield from _members(schema, instance)
        case list():
            yield from _items(schema, instance)
        case _:
            return


def _members(schema: JsonObject, instance: JsonObject) -> Iterator[Pair]:
    properties, patterns = schema.get("properties"), schema.get("patternProperties")
    named = properties if isinstance(properties, dict) else {}
    everywhere = list(_schemas([schema.get(keyword) for keyword in EACH_MEMBER]))
    if isinstance(patterns, dict):
        everywhere.extend(_schemas(list(patterns.values())))  # each pattern may match each name
    names = list(_schemas([schema.get("propertyNames")]))
    if not everywhere and not names:
        fewer, others = (named, instance) if len(named) < len(instance) else (instance, named)
        for name in fewer:
            if name in others:
                yield from ((inner, instance[name]) for inner in _schemas([named[name]]))
        return
    for name, member in instance.items():
        yield from ((inner, member) for inner in (*_schemas([named.get(name)]), *everywhere))
        yield from ((inner, name) for inner in names)


def _items(schema: JsonObject, instance: list[JsonValue]) -> Iterator[Pair]:
    everywhere = list(_schemas([schema.get(keyword) for keyword in EACH_ITEM]))
    for item in instance if everywhere else ():
        yield from ((inner, item) for inner in everywhere)
    for keyword in ("prefixItems", "items"):
        listed = schema.get(keyword)
        if isinstance(listed, list):
            yield from (
                (inner, item)
                for inner, item in zip(listed, instance, strict=False)
                if isinstance(inner, dict | bool)
            )


def _schemas(values: JsonValue) -> Iterator[AnySchema]:
    if isinstance(values, list):
        yield from (value for value in values if isinstance(value, dict | bool))
