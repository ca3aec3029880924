"""Strict types that Python data may satisfy as JSON does: lists for tuples, text for times.

Pydantic reads JSON text leniently where JSON has no such type, also in strict mode. Frameworks such
as FastAPI and FastStream parse JSON first and validate Python objects, where strict mode refuses a
list for a tuple and a text for a time. Numbers, texts and booleans stay strict in both.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_LENIENT_ALONE = {"enum", "frozenset", "list", "set", "tuple"}
_WRITTEN_AS_TEXT = {"date", "datetime", "decimal", "time", "timedelta", "url", "uuid"}
# A nested type says itself how strict it is. JSON and Python were distinguished before: the
# schema of a class is handed out again and again.
_OWN_RULES = {"dataclass", "definitions", "json-or-python", "model"}
_NO_SCHEMAS = {"config", "cls", "default", "metadata", "serialization"}


def read_python_as_json(schema: CoreSchema, handler: GetCoreSchemaHandler) -> CoreSchema:
    """The schema of a model, changed in place: its fields take what they would take from JSON."""
    fields: Any = schema
    while fields.get("type") not in {"model-fields", None}:
        fields = fields.get("schema", {})
    for found in list(_nodes(fields.get("fields", {}))):
        node = _enumeration(found, handler) or found
        kind = node.get("type")
        if kind in _LENIENT_ALONE:
            node["strict"] = False  # of the container alone: its items have their own
        elif kind in _WRITTEN_AS_TEXT:
            lax: Any = {**node, "strict": False}
            _take_also(node, core_schema.chain_schema([core_schema.str_schema(strict=True), lax]))
        elif kind == "lax-or-strict":  # other classes of Python's own
            _take_also(node, node["lax_schema"])
    return schema


def _enumeration(node: dict[str, Any], handler: GetCoreSchemaHandler) -> dict[str, Any] | None:
    """An enumeration stands apart, where each use of it refers to."""
    if node.get("type") != "definition-ref":
        return None
    try:
        meant: Any = handler.resolve_ref_schema(node)
    except LookupError:
        return None  # a type that is being built right now, such as one that holds itself
    return meant if meant.get("type") == "enum" else None


def _take_also(node: dict[str, Any], other: Any) -> None:
    """Let Python data satisfy another schema too; JSON is read as before."""
    strict: Any = dict(node)
    node.clear()
    node |= core_schema.json_or_python_schema(
        strict, core_schema.union_schema([strict, other], mode="left_to_right")
    )


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """All schemas in it, inner ones first; not those of types with rules of their own."""
    if isinstance(schema, dict):
        if schema.get("type") in _OWN_RULES:
            return
        for name, inner in schema.items():
            if name not in _NO_SCHEMAS:
                yield from _nodes(inner)
        yield schema
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _nodes(inner)
