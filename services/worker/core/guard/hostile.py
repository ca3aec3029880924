"""The static guard: rejects schemas that must not be compiled, in time linear in their text."""

import json

from answerbus.dead_letter import ANY_DIALECT, HostileSchema, UnsupportedSchema
from answerbus.failure import Problem
from answerbus.limits import (
    INLINE_SCHEMA_BYTES_MAX,
    INLINE_SCHEMA_DEPTH_MAX,
    INLINE_SCHEMA_NODES_MAX,
    PROBLEMS_MAX,
)
from services.worker.core.guard.cycles import circular
from services.worker.core.guard.expansion import expanded_nodes
from services.worker.core.guard.nesting import nests_deeper
from services.worker.core.guard.references import faults, is_no_public_address
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, Draft, JsonObject, draft_of
from services.worker.core.json_schema.local_references import TooManyError, localised
from services.worker.core.json_schema.resources import Resources

Refusal = HostileSchema | UnsupportedSchema


def admit(schema: object) -> Document | Refusal:
    """The schema with pointers as its only references, or why the worker will not touch it.

    The root must be an object or `true`. Problems name places and limits, never the input.
    """
    if schema is True:
        return Document(schema)
    if not isinstance(schema, dict):
        expected = "a schema that some answer can satisfy: an object or true"
        return hostile(Problem.of("", "root", expected))
    too_large = _size(schema)
    if too_large is not None:
        return hostile(too_large)
    draft = draft_of(schema)
    if draft is None:
        return _unknown_draft(schema)
    return _referring(schema, draft)


def hostile(*problems: Problem) -> HostileSchema:
    """A refusal of what could harm the worker, or is no schema."""
    return HostileSchema(problems=problems)


def _unsupported(*problems: Problem) -> UnsupportedSchema:
    return UnsupportedSchema(dialect=ANY_DIALECT, problems=problems)


def guard(schema: object) -> tuple[Problem, ...]:
    """Why the worker will not touch this schema; empty if it may be compiled."""
    admitted = admit(schema)
    return () if isinstance(admitted, Document) else admitted.problems


def _size(schema: JsonObject) -> Problem | None:
    # Depth goes first: the JSON writer that measures bytes is itself recursive.
    if nests_deeper(schema, INLINE_SCHEMA_DEPTH_MAX):
        return Problem.of("", "depth", f"at most {INLINE_SCHEMA_DEPTH_MAX} levels of nesting")
    if text_bytes(schema) > INLINE_SCHEMA_BYTES_MAX:
        expected = f"at most {INLINE_SCHEMA_BYTES_MAX} bytes of compact JSON"
        return Problem.of("", "size", expected)
    return None


def text_bytes(schema: AnySchema) -> int:
    """The length of a schema as compact JSON in UTF-8."""
    text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    return len(text.encode(errors="surrogatepass"))


def _unknown_draft(schema: JsonObject) -> Refusal:
    expected = "one of the drafts 4, 6, 7, 2019-09 and 2020-12, by its official address"
    problem = Problem.of("/$schema", "draft", expected)
    declared = schema["$schema"]
    is_address = isinstance(declared, str) and not is_no_public_address(declared)
    return _unsupported(problem) if is_address else hostile(problem)


def _referring(schema: JsonObject, draft: Draft) -> Document | Refusal:
    resources = Resources(schema, draft)
    found = [
        fault for fault, _ in zip(faults(schema, resources), range(PROBLEMS_MAX), strict=False)
    ]
    if found:
        is_hostile = any(fault.is_hostile for fault in found)
        return (hostile if is_hostile else _unsupported)(*(fault.problem for fault in found))
    try:
        document = Document(localised(schema, draft, resources, INLINE_SCHEMA_NODES_MAX))
    except TooManyError:
        return hostile(_too_many())
    return _unending(document) or document


def _unending(document: Document) -> Refusal | None:
    """Why an answer cannot be checked against the schema in bounded time, if that is so."""
    if expanded_nodes(document, INLINE_SCHEMA_NODES_MAX) > INLINE_SCHEMA_NODES_MAX:
        return hostile(_too_many())
    again = circular(document)
    if again is None:
        return None
    path = next(path for path, inner in document.schemas() if inner is again)
    expected = "references that lead into members or items, not back to where they started"
    return _unsupported(Problem.of(path, "cycle", expected))


def _too_many() -> Problem:
    expected = f"at most {INLINE_SCHEMA_NODES_MAX} schemas once references are followed"
    return Problem.of("", "expansion", expected)
