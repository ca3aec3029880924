"""The static guard: what may not even be compiled, found in time linear in the schema's text."""

import json
from collections.abc import Iterator

from answerbus.failure import Problem
from answerbus.limits import (
    INLINE_SCHEMA_BYTES_MAX,
    INLINE_SCHEMA_DEPTH_MAX,
    INLINE_SCHEMA_NODES_MAX,
    PROBLEMS_MAX,
)
from services.worker.core.document import Document
from services.worker.core.expansion import expanded_nodes
from services.worker.core.keywords import AnySchema, JsonObject, draft_of, reference, subschemas
from services.worker.core.nesting import nests_deeper

_DYNAMIC = ("$dynamicRef", "$recursiveRef")
_IDS = ("$id", "id")


def guard(schema: object) -> tuple[Problem, ...]:
    """Why the worker will not touch this schema; empty if it may be compiled.

    The root must be an object or `true`. Problems name places and limits, never the input.
    """
    if schema is True:
        return ()
    if not isinstance(schema, dict):
        return (Problem.of("", "root", "a schema that some answer can satisfy: an object or true"),)
    return _size(schema) or _forms(schema) or _expansion(schema)


def _size(schema: JsonObject) -> tuple[Problem, ...]:
    # Depth goes first: the JSON writer that measures bytes is itself recursive.
    if nests_deeper(schema, INLINE_SCHEMA_DEPTH_MAX):
        expected = f"at most {INLINE_SCHEMA_DEPTH_MAX} levels of nesting"
        return (Problem.of("", "depth", expected),)
    if text_bytes(schema) > INLINE_SCHEMA_BYTES_MAX:
        expected = f"at most {INLINE_SCHEMA_BYTES_MAX} bytes of compact JSON"
        return (Problem.of("", "size", expected),)
    return ()


def text_bytes(schema: AnySchema) -> int:
    """The length of a schema as compact JSON in UTF-8."""
    text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    return len(text.encode(errors="surrogatepass"))


def _forms(schema: JsonObject) -> tuple[Problem, ...]:
    if draft_of(schema) is None:
        expected = "one of the drafts 4, 6, 7, 2019-09 and 2020-12, by its official address"
        return (Problem.of("/$schema", "draft", expected),)
    document = Document(schema)
    found: list[Problem] = []
    for path, inner in document.schemas():
        found.extend(_faults(document, path, inner))
        if len(found) >= PROBLEMS_MAX:
            break
    return tuple(found[:PROBLEMS_MAX])


def _faults(document: Document, path: str, schema: JsonObject) -> Iterator[Problem]:
    ref = reference(schema)
    if ref is not None and document.target(ref) is None:
        expected = "a reference to a schema in this document, such as #/$defs/name"
        yield Problem.of(path + "/$ref", "reference", expected)
    for keyword in _DYNAMIC:
        if isinstance(schema.get(keyword), str):
            yield Problem.of(f"{path}/{keyword}", "dynamic_reference", "`$ref` instead")
    if path and "$schema" in schema and draft_of(schema) is not document.draft:
        yield Problem.of(path + "/$schema", "draft", "one draft for the whole document")
    if path and _moves_references(schema):
        expected = "no id on a schema that holds references: an id would change what they mean"
        yield Problem.of(path, "id", expected)


def _moves_references(schema: JsonObject) -> bool:
    if not any(isinstance(schema.get(keyword), str) for keyword in _IDS):
        return False
    waiting: list[AnySchema] = [schema]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            if reference(inner) is not None:
                return True
            waiting.extend(deeper for _, deeper in subschemas(inner))
    return False


def _expansion(schema: JsonObject) -> tuple[Problem, ...]:
    if expanded_nodes(Document(schema), INLINE_SCHEMA_NODES_MAX) > INLINE_SCHEMA_NODES_MAX:
        expected = f"at most {INLINE_SCHEMA_NODES_MAX} schemas once references are followed"
        return (Problem.of("", "expansion", expected),)
    return ()
