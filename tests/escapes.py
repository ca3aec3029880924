"""Answers that an engine's grammars let through although a dialect calls their rules enforced."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import JsonValue

from answerbus import json_text
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.corpora import corpora
from tests.oracle import is_valid
from tests.strict_subset import faults
from tests.unit.worker.dialects.compiling import closed

Draw = Callable[[JsonValue], Iterable[str]]
TEXT = {"type": "string"}
OWN: list[Any] = [
    {"type": "string", "minLength": 3, "maxLength": 5},
    {"minLength": 3, "minItems": 1, "minimum": 2, "type": ["string", "array", "integer"]},
    {"type": "string", "pattern": r"^[\w.-]+@(a|bc)\.(com|org)$"},
    {"type": "string", "pattern": r"^\d{3}-[A-Z]{2,4}(/x)?$"},
    {"type": "string", "pattern": r"^#[\]\[^-]+$"},
    *({"type": "string", "format": name} for name in ("date", "date-time", "time", "ipv4", "uuid")),
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 120},
    *({"type": "integer", "minimum": least} for least in (-200, 99, 100, 110, 2024, 2**53)),
    *({"type": "integer", "maximum": most} for most in (200, 0, -1, -99, -2024, -(2**53))),
    {"type": "integer", "minimum": -7, "maximum": -7},
    {"type": "integer", "multipleOf": 5},
    {"type": "number", "minimum": 0.1, "exclusiveMaximum": 3},
    {"type": "number", "exclusiveMinimum": -1.5, "maximum": 1e-7},
    *({"type": "number", "minimum": least} for least in (-200, -0.5, 0, 1e-9, 2.5, 2**53)),
    *({"type": "number", "exclusiveMaximum": most} for most in (200, 0.5, 0, -1e-9, -2.5)),
    {"type": ["string", "null"], "pattern": "^[a-z]{2}$", "maxLength": 1},
    {"enum": ["ü", 'a"b', "\\", None, 2.5, True, [1, {"a": None}]]},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
    {"type": "array", "items": False},
    {"type": "array", "minItems": 2},
    closed({"a": {}, "b": TEXT, "kind": {"const": "k"}}, "kind", "a"),
    closed({"a": {"type": ["integer", "null"]}}),
    closed({}),
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "integer", "minimum": 2}},
    {"type": "object", "properties": {"a": TEXT, "ab": TEXT}, "required": ["c"]},
    {"type": "object", "properties": {"": TEXT, "ü": TEXT, 'x"y': TEXT, "$ref": TEXT}},
    {"type": "object", "properties": {"items[]": TEXT, "^": TEXT}},
    {"type": "object", "properties": {"a": False}},
    {"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False},
    {"anyOf": [TEXT, closed({"a": TEXT}, "a"), {"type": "array", "items": {"$ref": "#"}}]},
    {"$ref": "#/$defs/n", "$defs": {"n": closed({"v": {}, "next": {"$ref": "#/$defs/n"}}, "v")}},
    {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#/$defs/a_b"}, {"$ref": "#/$defs/a-b"}]},
        "$defs": {"a": closed({"b": TEXT}), "a_b": closed({"x": TEXT}, "x"), "a-b": {"const": 1}},
    },
    closed({"a": {"$ref": "#/$defs/address"}, "b": {"$ref": "#/$defs/address_type"}}, "a", "b")
    | {
        "$defs": {
            "address": closed({"type": closed({"x": TEXT}, "x")}, "type"),
            "address_type": {"type": "array", "items": TEXT},
        }
    },
    {"enum": [{"a": 1}, {"a": "x"}], "properties": {"a": {"type": "integer"}}},
    {"allOf": [{"required": ["a"]}, {"properties": {"a": TEXT}}, {"type": "object"}]},
    {"not": {"type": "string"}},
    True,
]
CONTRACTS = [contract.schema() for contract in Registry()]


def real_world(every: int) -> list[Any]:
    """One of so many of the real-world schemas; all of them take minutes."""
    return [case["schema"] for case in list(corpora().schemas())[::every]]


def escapes(schema: Any, dialect: DialectName, draw: Draw) -> list[str]:
    """What breaks the dialect's subset, and drawn sentences that break what it calls enforced."""
    wire, authority = _wire(schema, dialect), compile_schema(schema)
    if wire is None or not isinstance(authority, SchemaValidator):
        return []
    found = faults(wire.schema or {}, dialect)
    for sentence in draw(wire.schema):
        parsed = json_text.parse(sentence.encode(errors="surrogatepass"))
        if not isinstance(parsed, json_text.Parsed):
            found += [] if _is_json_of_sorts(sentence) else [sentence]
        elif not is_valid(wire.schema, parsed.value) or (
            not wire.notes and authority.problems(parsed.value)
        ):
            found.append(sentence)
    return found


def _wire(schema: Any, dialect: DialectName) -> WireSchema | None:
    asked = resolve(InlineRef(name="mine", wrapped=False, json_schema=schema), Registry([]))
    made = compile_for(dialect, asked) if isinstance(asked, ResolvedSchema) else None
    return made if isinstance(made, WireSchema) else None


def _is_json_of_sorts(text: str) -> bool:
    """Double names, lone surrogates and endless numbers, which no grammar rules out."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
