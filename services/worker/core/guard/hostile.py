"""The static guard: rejects schemas that must not be compiled, in time linear in their text."""

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from answerbus.dead_letter import ANY_DIALECT, HostileSchema, UnsupportedSchema
from answerbus.failure import Problem
from answerbus.limits import (
    INLINE_SCHEMA_BYTES_MAX,
    INLINE_SCHEMA_DEPTH_MAX,
    INLINE_SCHEMA_NODES_MAX,
    PROBLEMS_MAX,
)
from answerbus.problems import pointer
from services.text.nesting import nests_deeper
from services.worker.core.guard.expansion import expanded_nodes
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import (
    IN_PLACE_LIST,
    IN_PLACE_NAMED,
    IN_PLACE_ONE,
    REFERENCES,
    AnySchema,
    Draft,
    JsonObject,
    draft_of,
    reference,
    subschemas,
)
from services.worker.core.json_schema.local_references import TooManyError, localised
from services.worker.core.json_schema.resources import (
    ADDRESS_CHARS_MAX,
    Resources,
    SchemaLocation,
)

Refusal = HostileSchema | UnsupportedSchema
_IN_PLACE = IN_PLACE_ONE | IN_PLACE_LIST | IN_PLACE_NAMED
_SCHEMES = frozenset(["", "http", "https", "urn", "tag"])  # what identifies ordinary schemas


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """Why a schema is refused; `is_hostile` if following it would do harm."""

    problem: Problem
    is_hostile: bool = False


def faults(root: JsonObject, resources: Resources) -> Iterator[SchemaFault]:
    """All of them, in the order of the document."""
    draft = draft_of(root)
    for place, schema in resources.schemas():
        yield from _faults(draft, resources, place, schema)
    for place in resources.twice:
        expected = "an id that no other schema of the document has"
        yield SchemaFault(Problem.of(pointer(place.steps), "id", expected))
    for place, schema in resources.odd:
        if _refers(schema):
            expected = f"an id without `#`, of at most {ADDRESS_CHARS_MAX:,} characters"
            yield SchemaFault(Problem.of(pointer(place.steps), "id", expected))


def _refers(schema: JsonObject) -> bool:
    """Whether a schema has references in it, whose meaning depends on its id."""
    waiting: list[AnySchema] = [schema]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            if any(isinstance(inner.get(keyword), str) for keyword in REFERENCES):
                return True
            waiting.extend(deeper for _, deeper in subschemas(inner))
    return False


def _faults(
    draft: Draft | None, resources: Resources, place: SchemaLocation, schema: JsonObject
) -> Iterator[SchemaFault]:
    path = pointer(place.steps)
    ref = reference(schema)
    if ref is not None and resources.find(schema, ref) is None:
        expected = "only a reference to a schema in this document, such as #/$defs/name"
        yield SchemaFault(
            Problem.of(path + "/$ref", "reference", expected), is_no_public_address(ref)
        )
    if draft is not None and draft < Draft.D2019 and ref is not None:
        return
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if not _leads_somewhere(draft, resources, schema, keyword):
            yield SchemaFault(
                Problem.of(f"{path}/{keyword}", "dynamic_reference", "`$ref` instead")
            )
    if place.steps and "$schema" in schema and draft_of(schema) is not draft:
        yield SchemaFault(
            Problem.of(path + "/$schema", "draft", "one draft for the whole document")
        )


def _leads_somewhere(
    draft: Draft | None, resources: Resources, schema: JsonObject, keyword: str
) -> bool:
    ref = schema.get(keyword)
    if not isinstance(ref, str):
        return True
    if keyword == "$recursiveRef":
        return draft is Draft.D2019 and ref == "#"
    return draft is Draft.D2020 and resources.find(schema, ref) is not None


def is_no_public_address(address: str) -> bool:
    """Whether an address is of the kind that no public schema has: a file, a number, a password."""
    # A host is normalized, which takes the square of its length.
    if len(address.partition("#")[0]) > ADDRESS_CHARS_MAX:
        return True
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return True
    return parts.scheme not in _SCHEMES or "@" in parts.netloc or _is_number(host)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.replace(".", "").isdigit()
    return True


def circular(document: Document) -> JsonObject | None:
    """A schema that comes back to itself without a step into the value; None if there is none.

    Only what applies to some value counts: a definition without a reference to it does
    no harm.
    """
    done: set[int] = set()
    for start in document.applied():
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
    """A refusal of what could harm the worker, or is not a schema."""
    return HostileSchema(problems=problems)


def _unsupported(*problems: Problem) -> UnsupportedSchema:
    return UnsupportedSchema(dialect=ANY_DIALECT, problems=problems)


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
