"""Finds schemas that apply to a value only if they apply to it: no validator ends on those."""

from collections.abc import Iterator

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import (
    IN_PLACE_LIST,
    IN_PLACE_NAMED,
    IN_PLACE_ONE,
    STORES,
    AnySchema,
    JsonObject,
    reference,
    subschemas,
)

_IN_PLACE = IN_PLACE_ONE | IN_PLACE_LIST | IN_PLACE_NAMED


def circular(document: Document) -> JsonObject | None:
    """A schema that comes back to itself without a step into the value; None if there is none.

    Only what applies to some value counts: a definition without a reference to it does
    no harm.
    """
    done: set[int] = set()
    for start in _applied(document):
        open_schemas: dict[int, Iterator[JsonObject]] = {}
        waiting = [] if id(start) in done else [start]
        while waiting:
            schema = waiting[-1]
            onward = open_schemas.setdefault(id(schema), _in_place(document, schema))
            following = next(onward, None)
            if following is None:
                waiting.pop()
                del open_schemas[id(schema)]
                done.add(id(schema))
            elif id(following) in open_schemas:
                return following
            elif id(following) not in done:
                waiting.append(following)
    return None


def _applied(document: Document) -> Iterator[JsonObject]:
    """Every schema that is applied to some value, each once."""
    seen: set[int] = set()
    waiting: list[AnySchema] = [document.root]
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, bool) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        waiting.extend(_target(document, schema))
        if not document.ignores_siblings(schema):
            waiting.extend(inner for steps, inner in subschemas(schema) if steps[0] not in STORES)


def _in_place(document: Document, schema: JsonObject) -> Iterator[JsonObject]:
    """The schemas that are applied to the same value as `schema`."""
    yield from _target(document, schema)
    if document.ignores_siblings(schema):
        return
    for steps, inner in subschemas(schema):
        if steps[0] in _IN_PLACE and isinstance(inner, dict):
            yield inner


def _target(document: Document, schema: JsonObject) -> list[JsonObject]:
    ref = reference(schema)
    target = None if ref is None else document.target(ref)
    return [target] if isinstance(target, dict) else []
