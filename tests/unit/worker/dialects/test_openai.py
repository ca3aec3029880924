"""The dialect `openai`: strict schemas that are never narrower, and answers read back from them."""

from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.dead_letter import UnsupportedSchema
from answerbus.failure import Invalid
from answerbus.registry import Registry
from answerbus.request import InlineRef, TextRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, Unusable, WireSchema
from services.worker.dialects.dispatch import compile_for
from tests.strict_subset import faults

OPTIONAL_TEXT: JsonValue = {"type": ["string", "null"]}
REST = "null_or_extra_json"


def wire(schema: Any, **changes: Any) -> WireSchema:
    ref = InlineRef(name="mine", wrapped=False, json_schema=schema).model_copy(update=changes)
    asked = resolve(ref, Registry([]))
    assert isinstance(asked, ResolvedSchema), asked
    compiled = compile_for("openai", asked)
    assert isinstance(compiled, WireSchema), compiled
    assert compiled.schema is not None
    assert faults(compiled.schema) == []
    return compiled


def sent(schema: Any) -> Any:
    """The wire schema without descriptions; of a boxed root, what is in the box."""

    def bare(value: Any) -> Any:
        match value:
            case dict():
                return {k: bare(v) for k, v in value.items() if k != "description" or v is dict}
            case list():
                return [bare(item) for item in value]
            case _:
                return value

    whole = bare(wire(schema).schema)
    boxed = list(whole["properties"]) == ["answer"]
    return whole["properties"]["answer"] if boxed else whole


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def fixed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return closed(properties) | {"required": list(required)}


CARRIED: dict[str, Any] = closed({"json_text": {"type": "string"}})
AS_ITSELF: dict[str, Any] = {"type": ["boolean", "number", "string"]}
ANYTHING: dict[str, Any] = {"anyOf": [CARRIED, AS_ITSELF]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": "string", "minLength": 2, "title": "T", "default": "x"}, {"type": "string"}),
        ({"type": "string", "pattern": "^[a-z]{2}(?:x|y)$"},) * 2,
        ({"type": "string", "format": "date-time"},) * 2,
        ({"type": "string", "format": "iri"}, {"type": "string"}),
        ({"type": "string", "pattern": "a|b"}, {"type": "string"}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        (
            {"enum": ["a", 1, 2.5, None]},
            {"type": ["null", "number", "string"]} | {"enum": ["a", 1, 2.5, None]},
        ),
        ({"type": "string", "enum": ["a", 1]}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9.5},
            {"type": "integer", "minimum": 1, "maximum": 9},
        ),
        ({"type": "number", "minimum": 0, "multipleOf": 0.5},) * 2,
        ({"type": "integer", "minimum": 10**30}, {"type": "integer"}),
        ({"type": ["string", "null", "boolean"]}, {"type": ["boolean", "null", "string"]}),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        ),
        (
            {"type": "array", "items": False},
            {"type": "array", "items": {"type": "null"}} | {"maxItems": 0},
        ),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "null"}],
                "items": False,
            },
            {"type": "array", "items": {"type": ["string", "null"]}},
        ),
        ({"type": "array"}, {"type": "string"}),
        ({"type": "object"}, {"type": "string"}),
        ({}, ANYTHING),
        (True, ANYTHING),
        ({"not": {"type": "null"}}, ANYTHING),
        ({"anyOf": [{}, {"minimum": 3}]}, ANYTHING),
        ({"enum": [{"a": 1}]}, {"type": "string"}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "string"}),
        (fixed({"a": {"type": "string"}}, "a"), closed({"a": {"type": "string"}})),
        (fixed({"a": {"type": "string"}}), closed({"a": OPTIONAL_TEXT})),
        (fixed({"a": True}), closed({"a": {"anyOf": [CARRIED, AS_ITSELF, {"type": "null"}]}})),
        (fixed({"a": False, "b": {"type": "null"}}), closed({"b": {"type": "null"}})),
        (
            fixed({"a": {"enum": ["x"]}}),
            closed({"a": {"type": ["string", "null"]} | {"enum": ["x", None]}}),
        ),
        (
            fixed({"a": {"type": "array", "items": {"type": "null"}}}),
            closed(
                {"a": {"anyOf": [{"type": "array", "items": {"type": "null"}}, {"type": "null"}]}}
            ),
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            closed({"a": {"type": "string"}, REST: OPTIONAL_TEXT}),
        ),
        (
            {"type": "object", "required": ["a"]},
            closed({"a": ANYTHING} | {REST: OPTIONAL_TEXT}),
        ),
        (
            {"properties": {"a": {"type": "null"}}},
            {
                "anyOf": [
                    closed({"a": {"type": "null"}, REST: OPTIONAL_TEXT}),
                    closed({"json_text": {"type": "string"}}),
                    {"type": ["boolean", "number", "string"]},
                ]
            },
        ),
        (
            fixed({"n": {"type": "null"}, "kind": {"const": "k"}}, "kind"),
            closed({"kind": {"type": "string", "enum": ["k"]}, "n": {"type": "null"}}),
        ),
        ({"anyOf": [{"type": "string"}, False]}, {"type": "string"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "object"}]},
            {"anyOf": [closed({"json_text": {"type": "string"}}), {"type": "string"}]},
        ),
        ({"type": ["object", "null"]}, {"anyOf": [{"type": "null"}, {"type": "string"}]}),
        (
            {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 5, "maximum": 9}]},
            {"type": "integer", "minimum": 5, "maximum": 9},
        ),
        (
            {
                "allOf": [
                    fixed({"a": {"type": "null"}, "b": {"type": "null"}}, "a"),
                    {"properties": {"b": {"type": ["null", "string"]}}, "required": ["b"]},
                ]
            },
            closed({"a": {"type": "null"}, "b": {"type": "null"}}),
        ),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": fixed({"x": {"type": "null"}}, "x")}},
            closed({"x": {"type": "null"}}),
        ),
    ],
)
def test_a_schema_is_rewritten_for_the_strict_subset(schema: Any, expected: Any) -> None:
    whole = sent(schema)
    whole.pop("$defs", None)

    assert whole == expected


def test_a_root_that_is_no_object_travels_in_one() -> None:
    compiled = wire({"type": "integer"})

    assert compiled.schema == closed({"answer": {"type": "integer"}})
    assert compiled.decode({"answer": 5}) == 5
    assert compiled.decode(5) == 5


def test_recursion_is_kept_by_reference() -> None:
    schema = fixed({"v": {"type": "null"}, "next": {"$ref": "#"}}, "v")
    node = closed(
        {"v": {"type": "null"}, "next": {"anyOf": [{"$ref": "#/$defs/root"}, {"type": "null"}]}}
    )

    assert wire(schema).schema == node | {"$defs": {"root": node}}
    assert wire(schema).decode({"v": None, "next": {"v": None, "next": None}}) == {
        "v": None,
        "next": {"v": None},
    }


def test_a_contract_becomes_a_tagged_union() -> None:
    asked = resolve(PLAN_PROPOSAL.ref, Registry([PLAN_PROPOSAL]))
    assert isinstance(asked, ResolvedSchema)
    compiled = compile_for("openai", asked)
    assert isinstance(compiled, WireSchema)
    assert compiled.schema is not None
    answer: JsonValue = {
        "kind": "refuse",
        "reason": "out_of_scope",
        "detail": "d",
        "rationale": "r",
    }

    assert faults(compiled.schema) == []
    assert (compiled.name, compiled.dialect) == ("plan_proposal", "openai")
    variants = compiled.schema["$defs"]
    assert isinstance(variants, dict)
    assert all(next(iter(variant["properties"])) == "kind" for variant in variants.values())  # type: ignore[index,call-overload,arg-type]
    assert asked.read(compiled.decode({"answer": answer})) == Accepted(  # type: ignore[arg-type]
        {"kind": "refuse", "reason": "out_of_scope", "detail": "d"},
        declined=PLAN_PROPOSAL.declines(
            PLAN_PROPOSAL.adapter.validate_python(
                {"kind": "refuse", "reason": "out_of_scope", "detail": "d"}
            )
        ),
        rationale="r",
    )


@pytest.mark.parametrize(
    ("schema", "written", "read"),
    [
        (fixed({"a": {"type": "string"}}), {"a": None}, {}),
        (fixed({"a": {"type": ["string", "null"]}}), {"a": None}, {"a": None}),
        (fixed({"a": True}), {"a": None}, {}),
        (fixed({"a": True}), {"a": "null"}, {"a": "null"}),
        (fixed({"a": True}), {"a": {"json_text": "null"}}, {"a": None}),
        (fixed({"a": True}), {"a": "5"}, {"a": "5"}),
        (fixed({"a": True}), {"a": 5}, {"a": 5}),
        (fixed({"a": {"type": "object"}}), {"a": '{"x": [1]}'}, {"a": {"x": [1]}}),
        (fixed({"a": {"type": "object"}}), {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"properties": {"a": True}}, {"answer": "[1]"}, "[1]"),
        ({"properties": {"a": True}}, {"answer": {"json_text": "[1]"}}, [1]),
        (
            {"type": "object", "properties": {"a": True}},
            {"a": "1", REST: '{"b": 2}'},
            {"a": "1", "b": 2},
        ),
        ({"type": "object", "properties": {"a": True}}, {"a": 1, REST: None}, {"a": 1}),
        ({"type": "object", "properties": {"a": True}}, {"a": "1", REST: "null"}, {"a": "1"}),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"b": 1}, {"b": 1}),
        (
            {"anyOf": [fixed({"a": True}, "a"), fixed({"b": {"type": "string"}}, "b")]},
            {"answer": {"b": "1"}},
            {"b": "1"},
        ),
        (
            {"anyOf": [fixed({"a": True}, "a"), fixed({"b": {"type": "string"}}, "b")]},
            {"answer": {"a": {"json_text": "[1]"}}},
            {"a": [1]},
        ),
        ({"anyOf": [fixed({"a": True}, "a"), {"type": "null"}]}, {"answer": 5}, 5),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, {"answer": "{}"}, "{}"),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, {"answer": {"json_text": "{}"}}, {}),
        ({"type": ["object", "null"]}, {"answer": "{}"}, {}),
    ],
)
def test_an_answer_is_read_back(schema: Any, written: JsonValue, read: JsonValue) -> None:
    assert wire(schema).decode(written) == read


@pytest.mark.parametrize(
    ("schema", "written", "path"),
    [
        (fixed({"a": {"type": "object"}}), {"a": "{'x': 1}"}, "/a"),
        (fixed({"a": {"type": "object"}}), {"a": '{"x": 1, "x": 2}'}, "/a"),
        (fixed({"a": {"type": "object"}}), {"a": '{"x": NaN}'}, "/a"),
        ({"type": "array"}, {"answer": ""}, "/answer"),
        ({"type": "object", "properties": {"a": True}}, {"a": None, REST: "{b: 1}"}, f"/{REST}"),
        ({"type": "object", "properties": {"a": True}}, {"a": None, REST: '{"a": 1}'}, f"/{REST}"),
        ({"type": "object", "properties": {"a": True}}, {"a": None, REST: {"b": 1}}, f"/{REST}"),
    ],
)
def test_json_text_that_is_none_is_never_guessed_at(
    schema: Any, written: JsonValue, path: str
) -> None:
    decoded = wire(schema).decode(written)

    assert isinstance(decoded, Invalid)
    assert [(problem.path, problem.code) for problem in decoded.problems] == [(path, "json_text")]


def test_a_member_that_has_our_name_keeps_it() -> None:
    schema = {"type": "object", "properties": {REST: {"type": "integer"}}, "required": [REST]}
    compiled = wire(schema)

    assert compiled.decode({REST: 1, f"{REST}_": '{"b": 2}'}) == {REST: 1, "b": 2}


@pytest.mark.parametrize(
    ("schema", "notes"),
    [
        ({"type": "string"}, []),
        (
            {"type": "string", "minLength": 1},
            ["`minLength` is not enforced by this provider; checked after (at /)"],
        ),
        (
            fixed({"a": {"type": "string", "pattern": "x"}}),
            ["`pattern` is not enforced by this provider; checked after (at /properties/a)"],
        ),
        (
            {"type": "array", "items": {"type": "null", "not": {}}, "contains": {}},
            [
                "`contains` is not enforced by this provider; checked after (at /)",
                "`not` is not enforced by this provider; checked after (at /items)",
            ],
        ),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, []),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            ["`oneOf` is not enforced by this provider; checked after (at /)"],
        ),
        ({"type": "object", "patternProperties": {"a": {}}}, ["what / allows is carried as JSON"]),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null"}},
                "patternProperties": {"b": {}},
            },
            ["`patternProperties` is not enforced by this provider; checked after (at /)"],
        ),
        (
            fixed({"a": {"type": "null"}}) | {"anyOf": [{"required": ["a"]}]},
            ["`anyOf` is not enforced by this provider; checked after (at /)"],
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}
            | {"format": "uuid"},
            [],
        ),
        (
            {"type": "string", "format": "iri"},
            ["`format` is not enforced by this provider; checked after (at /)"],
        ),
        ({"type": "string", "format": "colour"}, []),
    ],
)
def test_what_is_not_enforced_is_noted(schema: Any, notes: list[str]) -> None:
    found = wire(schema).notes

    assert [note[: len(start)] for note, start in zip(found, notes, strict=True)] == notes


def refusal(schema: Any) -> str:
    asked = resolve(InlineRef(name="x", wrapped=False, json_schema=schema), Registry([]))
    assert isinstance(asked, ResolvedSchema)
    compiled = compile_for("openai", asked)
    assert isinstance(compiled, Unusable)
    assert isinstance(compiled.cause, UnsupportedSchema)
    assert compiled.cause.dialect == "openai"
    return compiled.cause.problems[0].expected


def levels(count: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "null"}
    for _ in range(count):
        inner = fixed({"x": inner}, "x")
    return inner


@pytest.mark.wide
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"enum": []}, "some answer can satisfy"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "some answer can satisfy"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "some answer can satisfy"),
        ({"type": "number", "exclusiveMinimum": 5, "maximum": 5}, "some answer can satisfy"),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 1},
            "some answer can satisfy",
        ),
        ({"enum": [f"v{i}" for i in range(1001)]}, "1000 enum values"),
        (levels(11), "10 levels"),
        ({"type": "object", "required": [f"r{i}" for i in range(5000)]}, "5000 properties"),
    ],
)
def test_what_the_dialect_cannot_carry_is_refused_with_a_reason(schema: Any, reason: str) -> None:
    assert reason in refusal(schema)


@pytest.mark.wide
def test_limits_are_met_exactly() -> None:
    wire(levels(10))
    wire({"enum": [f"v{i}" for i in range(1000)]})
    # Of each member without a schema there are two, of all others together one.
    anything = [f"r{i}" for i in range(2499)]
    wire({"type": "object", "properties": {"x": {"type": "null"}}, "required": anything})


@pytest.mark.parametrize(("values", "chars", "is_sent"), [(250, 61, True), (251, 60, False)])
def test_a_choice_that_is_too_long_to_list_is_checked_after(
    values: int, chars: int, is_sent: bool
) -> None:
    """The provider refuses more than 250 texts that have more than 15,000 characters."""
    texts = [f"{n:0{chars}}" for n in range(values)]
    found = wire({"description": "A colour.", "enum": texts})

    whole: Any = found.schema
    answer = whole["properties"]["answer"]
    assert (answer.get("enum") == texts, not found.notes) == (is_sent, is_sent)
    assert answer["description"].startswith("A colour.")
    assert all(text in str(answer) for text in texts)


@pytest.mark.parametrize("name", ["a.b", "x" * 128, "..."])
def test_names_are_those_a_provider_takes(name: str) -> None:
    compiled = wire({"type": "null"}, name=name)

    assert 1 <= len(compiled.name) <= 64
    assert compiled.name.isascii()
    assert "." not in compiled.name


def test_plain_text_needs_no_schema() -> None:
    asked = resolve(TextRef(), Registry([]))
    assert isinstance(asked, ResolvedSchema)
    compiled = compile_for("openai", asked)

    assert isinstance(compiled, WireSchema)
    assert (compiled.dialect, compiled.schema, compiled.notes) == ("openai", None, ())
    assert compiled.decode("any") == "any"
