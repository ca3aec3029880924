"""Schemas made to multiply, or to go round in circles, are compiled or refused in time."""

import sys
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.dead_letter import UnsupportedSchema
from services.worker.core.schema.resolved import Unusable
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import anthropic, gemini, llama_cpp, ollama, openai
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.openai import RULES
from tests.cpu_time import cpu_time
from tests.strict_subset import faults

pytestmark = pytest.mark.wide  # many cases, each of them long

SECONDS_MAX = 1.5  # of CPU on a busy core; what multiplies without a bound takes minutes

EACH = pytest.mark.parametrize(
    "rules",
    [openai.RULES, anthropic.RULES, gemini.RULES, llama_cpp.RULES, ollama.RULES],
    ids=lambda rules: rules.dialect,
)


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def members(count: int, of: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{i}": of for i in range(count)}}


CIRCLES: list[Any] = [
    {"$ref": "#"},
    {**ref("a"), "$defs": {"a": ref("b"), "b": ref("a")}},
    {**ref("a"), "$defs": {"a": {"anyOf": [ref("b")]}, "b": {"anyOf": [ref("a")]}}},
    {**ref("a"), "$defs": {n: {"anyOf": [ref(m) for m in "abc"]} for n in "abc"}},
    {
        **ref("a"),
        "$defs": {"a": {"anyOf": [ref("b"), {"type": "null"}]}, "b": {"anyOf": [ref("a")]}},
    },
    {
        **ref("a"),
        "$defs": {"a": {"allOf": [ref("b")]}, "b": {"allOf": [ref("a"), {"type": "null"}]}},
    },
]
MULTIPLYING: dict[str, Any] = {
    "base times branches": {
        **members(60, {"type": "string"}),
        "anyOf": [members(20, {"type": "integer"}) | {"required": [f"p{i}"]} for i in range(60)],
    },
    "alternatives without tags": {
        "anyOf": [members(1, {"type": "string"}) | {"required": ["p0"]} for _ in range(700)]
    },
    "alternatives with tags": {
        "oneOf": [
            {"properties": {"kind": {"const": i}}, "required": ["kind"], "type": "object"}
            for i in range(500)
        ]
    },
    "rules on others times members": {
        "allOf": [
            members(300, {}),
            *({"additionalProperties": {"minLength": i}} for i in range(1_200)),
        ]
    },
    "wide ranges in patterns": members(300, {"type": "string", "pattern": "^[ -\U0010ffff]$"}),
    "a chain of unions": {
        **ref("d0"),
        "$defs": {f"d{i}": {"anyOf": [ref(f"d{i + 1}"), {"type": "null"}]} for i in range(900)}
        | {"d900": members(1, {"type": "string"})},
    },
    "a chain of merged objects": {
        **ref("d0"),
        "$defs": {
            f"d{i}": members(1, {"allOf": [ref(f"d{i + 1}"), {"minProperties": 1}]})
            for i in range(300)
        }
        | {"d300": members(1, {"type": "string"})},
    },
    "recursion through allOf": {
        **ref("a"),
        "$defs": {
            "a": members(2, {"allOf": [ref("a"), ref("b")]}),
            "b": members(3, {"allOf": [ref("a"), {"description": "b"}]}),
        },
    },
    "recursion through allOf, wide": {
        "anyOf": [members(2, {"$ref": "#"}), members(1, ref("a"))],
        "$defs": {
            "a": {
                **members(40, ref("a")),
                "allOf": [
                    members(3, {**ref("a"), "anyOf": [{"format": "date"}, ref("a")]}),
                    {**members(20, {"$ref": "#"}), "allOf": [ref("a"), {"$ref": "#"}]},
                ],
            }
        },
    },
}


@EACH
@pytest.mark.parametrize("schema", CIRCLES)
@pytest.mark.parametrize("answer", [None, {"a": 1}])
def test_what_goes_round_in_circles_comes_to_an_end(
    rules: Rules, schema: Any, answer: JsonValue
) -> None:
    known, wire = compile_schema(schema), compile_shapes(schema, rules)

    assert isinstance(known, UnsupportedSchema)  # before any dialect sees it
    assert isinstance(wire, Compiled)
    assert faults(wire.schema, rules.dialect) == []
    wire.decode({"answer": answer})


@EACH
@pytest.mark.parametrize("schema", MULTIPLYING.values(), ids=MULTIPLYING)
def test_what_multiplies_is_compiled_or_refused_in_little_time(rules: Rules, schema: Any) -> None:
    known = compile_schema(schema)
    assert isinstance(known, SchemaValidator) or [p.code for p in known.problems] == ["cycle"]
    with cpu_time() as cpu:
        wire = compile_shapes(schema, rules)

    assert cpu.is_below(SECONDS_MAX)
    assert isinstance(wire, Unusable) or faults(wire.schema, rules.dialect) == []


@EACH
@pytest.mark.parametrize("length", [310, 2_000])  # the longest that is carried; one that is not
@pytest.mark.parametrize("end", [{}, members(1, {"type": "string"})], ids=["free", "object"])
def test_a_chain_of_unions_takes_little_time(rules: Rules, length: int, end: Any) -> None:
    chain = {f"d{i}": {"anyOf": [ref(f"d{i + 1}"), {"type": "null"}]} for i in range(length)}
    schema: Any = {**ref("d0"), "$defs": chain | {f"d{length}": end}}
    with cpu_time() as cpu:
        wire = compile_shapes(schema, rules)

    assert cpu.is_below(SECONDS_MAX)
    assert isinstance(wire, Compiled if length < 2_000 else Unusable)


def tree(levels: int) -> JsonValue:
    value: JsonValue = 7
    for _ in range(levels):
        value = {"x": value, "a": None}
    return value


@pytest.mark.parametrize("levels", [10, 99])
def test_an_answer_that_fits_nowhere_is_read_in_little_time(levels: int) -> None:
    """Two alternatives that differ at the very bottom: 2^levels ways to look for it."""
    sides: list[Any] = [
        {"type": "object", "properties": {"x": ref("t"), "a": {"type": kind}}, "required": ["x"]}
        | {"additionalProperties": False}
        for kind in ("string", "integer")
    ]
    wire = compile_shapes(
        {**ref("t"), "$defs": {"t": {"anyOf": [*sides, {"type": "null"}]}}}, RULES
    )
    assert isinstance(wire, Compiled)
    with cpu_time() as cpu:
        wire.decode({"answer": tree(levels)})

    assert cpu.is_below(SECONDS_MAX)


def test_a_deep_answer_leaves_room_on_the_stack() -> None:
    """Three hundred frames are more than any caller of ours has."""
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    }
    wire = compile_shapes(node | {"additionalProperties": False}, RULES)
    assert isinstance(wire, Compiled)
    value: JsonValue = None
    for _ in range(100):
        value = {"next": value}

    def from_below(frames: int) -> object:
        return from_below(frames - 1) if frames else wire.decode(value)

    assert sys.getrecursionlimit() == 1000
    assert from_below(300) == value
