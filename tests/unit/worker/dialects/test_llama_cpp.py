"""The dialect `llama_cpp`: answers as they are meant, and all that a grammar can enforce."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from services.worker.core.schema.resolved import Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.llama_cpp import MEMBERS_MAX, OPEN_NAME_CHARS_MAX
from tests.unit.worker.dialects.compiling import closed, compiled, sent, wire

TEXT: dict[str, Any] = {"type": "string"}
ANYTHING: dict[str, Any] = {"type": ["array", "boolean", "null", "number", "object", "string"]}
BOTH = pytest.mark.parametrize("dialect", ["llama_cpp", "ollama"])


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, ANYTHING),
        ({"type": "object"}, {"type": "object"}),
        ({"type": "array", "items": {}}, {"type": "array"}),
        (
            {"type": "array", "minItems": 2, "maxItems": 3},
            {"type": "array", "items": ANYTHING, "minItems": 2, "maxItems": 3},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer", "exclusiveMinimum": 2}},
            {
                "type": "object",
                "properties": {},
                "required": [],
                "additionalProperties": {"type": "integer", "minimum": 3},
            },
        ),
        (
            {"type": "object", "properties": {"o": TEXT, "r": {}}, "required": ["r"]},
            closed({"r": ANYTHING, "o": TEXT}, "r") | {"additionalProperties": True},
        ),
        (
            closed({"o": {"type": ["string", "null"]}}),
            closed({"o": {"type": ["null", "string"]}}),
        ),
        (
            {"minLength": 2},
            {
                "anyOf": [
                    TEXT | {"minLength": 2},
                    {"type": ["array", "boolean", "null", "number", "object"]},
                ]
            },
        ),
        ({"type": "integer", "minimum": 9}, {"type": "integer", "minimum": 9}),
        (
            {"type": "integer", "minimum": 10},  # llama.cpp misreads it where it is alone
            {"type": "integer", "minimum": 10, "maximum": 10**16 - 1},
        ),
        (
            {"type": "integer", "maximum": -1},
            {"type": "integer", "minimum": 1 - 10**16, "maximum": -1},
        ),
        (TEXT | {"minLength": 2, "maxLength": 9}, TEXT | {"minLength": 2, "maxLength": 9}),
        (TEXT | {"pattern": r"^\d+$"}, TEXT | {"pattern": "^[0-9]+$"}),
        (
            {"enum": [{"a": 1}, [2], "x"]},
            {"type": ["array", "object", "string"], "enum": [{"a": 1}, [2], "x"]},
        ),
        (
            closed({"next": {"$ref": "#"}}),
            {
                **closed({"next": {"$ref": "#/$defs/root"}}),
                "$defs": {"root": closed({"next": {"$ref": "#/$defs/root"}})},
            },
        ),
    ],
)
@BOTH
def test_what_is_sent(dialect: DialectName, schema: Any, expected: Any) -> None:
    assert sent(dialect, schema) == expected
    assert wire(dialect, schema).notes == ()


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        (TEXT | {"pattern": "a"}, "pattern"),
        (TEXT | {"pattern": "^[a]$", "maxLength": 3}, "maxLength"),
        (TEXT | {"pattern": "^[a]$", "format": "date"}, "format"),
        (TEXT | {"format": "email"}, "format"),
        (TEXT | {"maxLength": 1_001}, "maxLength"),
        ({"enum": ["a", "ab"], "minLength": 2}, "minLength"),
        ({"enum": [{}, {"a": 1}], "required": ["a"]}, "required"),
        ({"enum": [1, 2], "minimum": 2, "minLength": 9}, "minimum"),
        ({"type": "object", "maxProperties": 0}, "maxProperties"),
        ({"type": "array", "contains": False}, "contains"),
        ({"type": "object", "properties": {"a": False}}, "properties"),
        ({"type": "object", "required": ["]"]}, "required"),
        (
            {"allOf": [closed({"ab": {}}), {"patternProperties": {"^a": TEXT}}], "type": "object"},
            "patternProperties",
        ),
        ({"type": "number", "minimum": 1}, "minimum"),
        ({"type": "array", "items": {}, "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "patternProperties": {"^x": TEXT}}, "patternProperties"),
        ({"type": "object", "minProperties": 1}, "minProperties"),
        ({"oneOf": [{"type": "object"}, closed({"a": TEXT})]}, "oneOf"),
    ],
)
@BOTH
def test_each_rule_that_is_not_enforced_is_noted(
    dialect: DialectName, rule: Any, note: str
) -> None:
    (only,) = wire(dialect, closed({"v": rule}, "v")).notes

    assert only.startswith(f"`{note}` is not enforced by this provider; checked after (at /")


NEVER = {"type": "string", "enum": [1]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"anyOf": [{"$ref": "#/$defs/never"}, TEXT]}, TEXT),
        (closed({"a": {"$ref": "#/$defs/never"}}), closed({})),
        ({"type": "object", "additionalProperties": {"$ref": "#/$defs/never"}}, closed({})),
        ({"anyOf": [closed({"a": NEVER}, "a"), closed({}, "b"), TEXT]}, TEXT),
        ({"anyOf": [{"type": "array", "items": False, "minItems": 1}, TEXT]}, TEXT),
    ],
)
@BOTH
def test_what_nothing_satisfies_is_not_shown(
    dialect: DialectName, schema: Any, expected: Any
) -> None:
    assert sent(dialect, {**schema, "$defs": {"never": NEVER}}) == expected


@BOTH
def test_no_name_of_a_definition_is_another_with_marks(dialect: DialectName) -> None:
    refs = [{"$ref": f"#/$defs/{name}"} for name in ("a", "a_b", "a-b", "ab", "_")]
    whole = sent(
        dialect,
        closed({str(i): ref for i, ref in enumerate(refs)})
        | {"$defs": {ref["$ref"].rpartition("/")[2]: closed({"a": TEXT}) for ref in refs}},
    )

    assert list(whole["$defs"]) == ["a", "ab", "abx2", "abx3", "root"]


@BOTH
def test_an_answer_is_read_as_it_is(dialect: DialectName) -> None:
    made = wire(dialect, closed({"v": {}, "o": TEXT}, "v"))

    answers: tuple[JsonValue, ...] = (
        {"v": '{"a": 1}'},
        {"v": {"a": None}, "o": None},
        {"w": 1},
        [],
        "text",
    )
    for answer in answers:
        assert made.decode(answer) == answer


@BOTH
def test_models_are_shown_no_pattern_where_a_format_says_the_same(dialect: DialectName) -> None:
    other = TEXT | {"pattern": "^[a]$"}
    made = wire(
        dialect, {"type": "array", "items": closed({"d": TEXT | {"format": "date"}, "o": other})}
    )

    assert "02-29" in made.text
    shown = json.loads(made.shown_text)["items"]["properties"]
    assert shown == {"d": TEXT | {"format": "date"}, "o": other}


@pytest.mark.parametrize("names", [["a" * (OPEN_NAME_CHARS_MAX + 1)], ['a"b'], ["a\\b"], ["a\nb"]])
def test_names_that_no_grammar_can_tell_from_others_are_not_shown(names: list[str]) -> None:
    is_open = {"type": "object", "properties": dict.fromkeys(names, TEXT)}

    assert sent("llama_cpp", is_open) == {"type": "object"}
    assert "`properties` is not enforced" in wire("llama_cpp", is_open).notes[0]
    assert sent("llama_cpp", closed(dict.fromkeys(names, TEXT))) != {"type": "object"}


@pytest.mark.parametrize(
    ("dialect", "names", "expected"),
    [
        ("llama_cpp", map(str, range(MEMBERS_MAX + 1)), "at most 500 members in one object"),
        ("ollama", ["$ref"], "no member of the name `$ref`, which this provider takes for a ref"),
    ],
)
def test_what_is_refused_says_why(dialect: DialectName, names: Any, expected: str) -> None:
    made = compiled(dialect, closed(dict.fromkeys(names, TEXT)))

    assert isinstance(made, Unusable)
    assert expected in json.dumps(made.cause.model_dump(mode="json"))
