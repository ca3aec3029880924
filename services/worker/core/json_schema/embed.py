"""Copies of a schema that mean the same elsewhere: without ids, or inside another document."""

from collections.abc import Callable, Collection

from pydantic import JsonValue

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, JsonObject, reference


def without_ids(document: Document) -> AnySchema:
    """The schema without ids, which the guard has found to mean nothing here.

    A validator never gets to see one, so none can shadow a metaschema or be looked up.
    """
    return _rewritten(document, _drop_ids)


def embedded(document: Document, place: str, without: Collection[str] = ()) -> AnySchema:
    """The schema as it must be written at `place` of another one, such as `#/properties/output`.

    Keywords `without` which it means the same, such as descriptions, can be left out.
    """

    def move(schema: JsonObject) -> JsonObject:
        moved = {name: value for name, value in _drop_ids(schema).items() if name not in without}
        moved.pop("$schema", None)
        ref = reference(moved)
        if ref is not None:
            moved["$ref"] = place + ref.removeprefix("#")
        return moved

    return _rewritten(document, move)


def _drop_ids(schema: JsonObject) -> JsonObject:
    return {
        keyword: value
        for keyword, value in schema.items()
        if keyword not in {"$id", "id"} or not isinstance(value, str)
    }


def _rewritten(document: Document, change: Callable[[JsonObject], JsonObject]) -> AnySchema:
    """A deep copy with `change` applied to the schemas alone: a property may be named `$ref`."""
    schemas = {id(schema) for _, schema in document.schemas()}

    def copy(value: JsonValue) -> JsonValue:
        match value:
            case dict():
                members = {name: copy(member) for name, member in value.items()}
                return change(members) if id(value) in schemas else members
            case list():
                return [copy(item) for item in value]
            case _:
                return value

    if isinstance(document.root, bool):
        return document.root
    return change({name: copy(member) for name, member in document.root.items()})
