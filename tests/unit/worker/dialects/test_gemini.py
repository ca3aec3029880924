"""The dialect `gemini`: choices of texts and numbers alone, and recursion from optional members."""

import json
from typing import Any

import pytest

from services.worker.core.schema.resolved import WireSchema
from tests.unit.worker.dialects.compiling import closed, compiled, sent, wire

TEXT: dict[str, Any] = {"type": "string"}
NULL: dict[str, Any] = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "^a$", "format": "uri"}, TEXT),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 3},
            {"type": "integer", "minimum": 1, "maximum": 9},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number"}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"const": True}, {"type": "boolean"}),
        ({"const": None}, NULL),
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]}),
        (
            {"enum": ["a", 1, True, None]},
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "integer", "enum": [1]},
                    {"type": ["boolean", "null"]},
                ]
            },
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 3, "maxItems": 9},
            {"type": "array", "items": TEXT, "minItems": 3, "maxItems": 9},
        ),
        (closed({"o": TEXT, "r": TEXT}, "r"), closed({"r": TEXT, "o": TEXT}, "r")),
    ],
)
def test_what_is_sent(schema: Any, expected: Any) -> None:
    assert json.dumps(sent("gemini", schema)) == json.dumps(expected)


def test_only_a_choice_that_is_lost_is_noted() -> None:
    lost = wire("gemini", closed({"v": {"const": False}}, "v"))
    kept = wire("gemini", closed({"v": {"enum": [True, False, None, "a"]}}, "v"))

    assert lost.notes == (
        "`enum` is not enforced by this provider; checked after (at /properties/v)",
    )
    assert kept.notes == ()


def test_recursion_stays_where_it_may_be_left_out() -> None:
    list_of_nodes = {"type": "array", "items": {"$ref": "#"}}
    made = wire("gemini", closed({"name": TEXT, "children": list_of_nodes}, "name"))

    assert '{"$ref": "#/$defs/root"}' in json.dumps(made.schema)
    assert made.notes == ()


def test_recursion_in_what_must_be_there_goes_into_json_text() -> None:
    list_of_nodes = {"type": "array", "items": {"$ref": "#"}}
    made = wire("gemini", closed({"name": TEXT, "children": list_of_nodes}, "name", "children"))
    leaf: Any = {"name": "c", "children": []}

    read = made.decode({"name": "a", "children": [{"name": "b", "children": [json.dumps(leaf)]}]})

    assert any("inside itself" in note for note in made.notes)
    assert read == {"name": "a", "children": [{"name": "b", "children": [leaf]}]}


def test_too_many_words_are_refused_with_what_to_change() -> None:
    made = compiled("gemini", {"enum": [f"{number:04}" * 10 for number in range(1_501)]})

    assert not isinstance(made, WireSchema)
    (problem,) = made.cause.problems  # type: ignore[union-attr]
    assert problem.expected == "at most 60000 characters of property names and enum values"
