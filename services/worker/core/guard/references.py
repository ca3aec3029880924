"""Finds the references of a schema without a target, and those that are an attack."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from answerbus.failure import Problem
from answerbus.problems import pointer
from services.worker.core.json_schema.keywords import (
    REFERENCES,
    AnySchema,
    Draft,
    JsonObject,
    draft_of,
    reference,
    subschemas,
)
from services.worker.core.json_schema.resources import Resources, SchemaLocation

_SCHEMES = frozenset(["", "http", "https", "urn", "tag"])  # what identifies ordinary schemas


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a schema is refused; `is_hostile` if following it would do harm."""

    problem: Problem
    is_hostile: bool = False


def faults(root: JsonObject, resources: Resources) -> Iterator[Fault]:
    """All of them, in the order of the document."""
    draft = draft_of(root)
    for place, schema in resources.schemas():
        yield from _faults(draft, resources, place, schema)
    for place in resources.twice:
        expected = "an id that no other schema of the document has"
        yield Fault(Problem.of(pointer(place.steps), "id", expected))
    for place, schema in resources.odd:
        if _refers(schema):
            expected = "an id without `#`, as there are references inside"
            yield Fault(Problem.of(pointer(place.steps), "id", expected))


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
) -> Iterator[Fault]:
    path = pointer(place.steps)
    ref = reference(schema)
    if ref is not None and resources.find(schema, ref) is None:
        expected = "a reference to a schema in this document, such as #/$defs/name"
        yield Fault(Problem.of(path + "/$ref", "reference", expected), is_no_public_address(ref))
    if draft is not None and draft < Draft.D2019 and ref is not None:
        return
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if not _leads_somewhere(draft, resources, schema, keyword):
            yield Fault(Problem.of(f"{path}/{keyword}", "dynamic_reference", "`$ref` instead"))
    if place.steps and "$schema" in schema and draft_of(schema) is not draft:
        yield Fault(Problem.of(path + "/$schema", "draft", "one draft for the whole document"))


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
