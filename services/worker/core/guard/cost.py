"""How much work checking a value would be, counted without checking: libraries have no timeout."""

from collections.abc import Iterator, Mapping

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

_Pair = tuple[AnySchema, JsonValue]


def values_in(value: JsonValue) -> int:
    """The number of values in a document, itself included."""
    match value:
        case dict():
            return 1 + sum(map(values_in, value.values()))
        case list():
            return 1 + sum(map(values_in, value))
        case _:
            return 1


def findings_bound(document: Document, value: JsonValue, limit: int) -> int:
    """An upper bound on what there is to find wrong with `value`; counting stops beyond `limit`."""
    total = 0
    for schema, _ in _applied(document, value):
        total += 1
        if isinstance(schema, dict):
            required = schema.get("required")
            total += len(schema) + (len(required) if isinstance(required, list) else 0)
        if total > limit:
            break
    return total


def matching_bound(
    document: Document, value: JsonValue, weights: Mapping[str, int], limit: int
) -> int | None:
    """The work of matching patterns: the sum of weight times length over all texts they meet.

    None if more than `limit` schemas apply to values, which is then not counted to the end.
    """
    total = 0
    for count, (schema, instance) in enumerate(_applied(document, value)):
        if count >= limit:
            return None
        total += _matching(schema, instance, weights)
    return total


def _matching(schema: AnySchema, instance: JsonValue, weights: Mapping[str, int]) -> int:
    if isinstance(schema, bool):
        return 0
    match instance:
        case str():
            pattern = schema.get("pattern")
            return _bytes(instance) * weights[pattern] if isinstance(pattern, str) else 0
        case dict():
            named = schema.get("patternProperties")
            heavy = sum(weights[name] for name in named) if isinstance(named, dict) else 0
            return sum(map(_bytes, instance)) * heavy
        case _:
            return 0


def _bytes(text: str) -> int:
    return len(text.encode())


def _applied(document: Document, value: JsonValue) -> Iterator[_Pair]:
    """Each schema with each value it may be applied to.

    It follows every branch of every union to the end, as a validator does that collects errors,
    and never ends where references go round in a circle.
    """
    waiting: list[_Pair] = [(document.root, value)]
    while waiting:
        schema, instance = waiting.pop()
        yield schema, instance
        if isinstance(schema, dict):
            waiting.extend((inner, instance) for inner in _in_place(document, schema))
            if not document.ignores_siblings(schema):
                waiting.extend(_inside(schema, instance))


def _in_place(document: Document, schema: JsonObject) -> Iterator[AnySchema]:
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


def _inside(schema: JsonObject, instance: JsonValue) -> Iterator[_Pair]:
    match instance:
        case dict():
            yield from _members(schema, instance)
        case list():
            yield from _items(schema, instance)
        case _:
            return


def _members(schema: JsonObject, instance: JsonObject) -> Iterator[_Pair]:
    properties, patterns = schema.get("properties"), schema.get("patternProperties")
    named = properties if isinstance(properties, dict) else {}
    everywhere = list(_schemas([schema.get(keyword) for keyword in EACH_MEMBER]))
    if isinstance(patterns, dict):
        everywhere.extend(_schemas(list(patterns.values())))  # each pattern may match each name
    names = list(_schemas([schema.get("propertyNames")]))
    for name, member in instance.items():
        yield from ((inner, member) for inner in (*_schemas([named.get(name)]), *everywhere))
        yield from ((inner, name) for inner in names)


def _items(schema: JsonObject, instance: list[JsonValue]) -> Iterator[_Pair]:
    everywhere = list(_schemas([schema.get(keyword) for keyword in EACH_ITEM]))
    for item in instance:
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
