"""What the dialect `llama_cpp` says is enforced, the grammars of a real server do enforce."""

import json
import random
from typing import Any
from urllib.request import Request, urlopen

import pytest
from pydantic import JsonValue

from answerbus import json_text
from answerbus.registry import Registry
from infra.local_model import LocalModel
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import llama_cpp
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
from tests.corpora import corpora
from tests.gbnf import Grammar
from tests.oracle import is_valid
from tests.unit.worker.dialects.compiling import closed

pytestmark = pytest.mark.real_llm

SENTENCES = 30
LIMIT_S = 60.0
RULE = "response-format"  # the server's name for an answer
EVERY = 6  # of the real-world schemas; the whole takes minutes

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


def real_world() -> list[Any]:
    return [case["schema"] for case in list(corpora().schemas())[::EVERY]]


def grammar(model: LocalModel, schema: JsonValue) -> Grammar:
    """The grammar that the server makes of a schema; it tells who asks for it."""
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    body = {"messages": [{"role": "user", "content": "-"}], "max_tokens": 1, "verbose": True}
    asked = Request(
        f"{model.base_url}/chat/completions",
        json.dumps({**body, "response_format": wanted}).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(asked, timeout=LIMIT_S) as reported:
        return Grammar(json.load(reported)["__verbose"]["generation_settings"]["grammar"])


def is_json_of_sorts(text: str) -> bool:
    """Double names, lone surrogates and endless numbers, which no grammar rules out."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def escapes(model: LocalModel, schema: Any) -> list[str]:
    """The sentences of a schema's grammar that break what the dialect calls enforced."""
    authority, compiled = compile_schema(schema), compile_shapes(schema, llama_cpp.RULES)
    if not isinstance(authority, SchemaValidator) or not isinstance(compiled, Compiled):
        return []
    made, chance, found = grammar(model, compiled.schema), random.Random(1), []
    for _ in range(SENTENCES):
        sentence = made.sentence(RULE, chance)
        parsed = json_text.parse(sentence.encode(errors="surrogatepass"))
        if not isinstance(parsed, json_text.Parsed):
            found += [] if is_json_of_sorts(sentence) else [sentence]
        elif not is_valid(compiled.schema, parsed.value) or (
            not compiled.notes and authority.problems(parsed.value)
        ):
            found.append(sentence)
    return found


@pytest.mark.parametrize("schema", OWN + CONTRACTS, ids=lambda schema: json.dumps(schema)[:60])
def test_nothing_but_what_is_noted_escapes(model: LocalModel, schema: Any) -> None:
    assert escapes(model, schema) == []


def test_nothing_escapes_real_world_schemas(model: LocalModel) -> None:
    schemas = real_world()
    found = {json.dumps(schema)[:80]: out for schema in schemas if (out := escapes(model, schema))}

    assert schemas
    assert found == {}
