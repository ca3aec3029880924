"""The dialect `anthropic`: what is optional is left out; what has no room is packed."""

import json
from typing import Any

import pytest

from services.worker.core.schema.resolved import WireSchema
from tests.unit.worker.dialects.compiling import closed, compiled, sent, wire

TEXT: dict[str, Any] = {"type": "string"}
REST = "null_or_extra_json"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "^a$", "minLength": 2}, TEXT),
        ({"type": "string", "format": "uri"}, {"type": "string", "format": "uri"}),
        ({"type": "integer", "minimum": 1, "multipleOf": 2}, {"type": "integer"}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        (
            {"type": "array", "items": TEXT, "minItems": 3, "maxItems": 9},
            {"type": "array", "items": TEXT, "minItems": 1},
        ),
        ({"type": "array", "items": False}, {"type": "array", "items": {"type": "null"}}),
        (
            closed({"o": TEXT, "r": {"type": "integer"}, "t": {"const": "x"}}, "r", "t"),
            closed(
                {"t": {"type": "string", "enum": ["x"]}, "r": {"type": "integer"}, "o": TEXT},
                "t",
                "r",
            ),
        ),
        (closed({"o": {"type": ["string", "null"]}}), closed({"o": TEXT})),
        (closed({"o": {"anyOf": [TEXT, {"type": "null"}]}}), closed({"o": TEXT})),
        (closed({"o": {"enum": ["a", None]}}), closed({"o": {"type": "string", "enum": ["a"]}})),
        (
            closed({"o": {"type": ["string", "null"]}}, "o"),
            closed({"o": {"type": ["null", "string"]}}, "o"),
        ),
        (
            {"type": "object", "properties": {"a": TEXT}},
            closed({REST: TEXT, "a": TEXT}, REST),
        ),
    ],
)
def test_what_is_sent(schema: Any, expected: Any) -> None:
    assert json.dumps(sent("anthropic", schema)) == json.dumps(expected)


def test_what_is_left_out_is_read_as_left_out() -> None:
    made = wire("anthropic", closed({"a": TEXT, "n": {"type": ["string", "null"]}}))

    assert made.decode({}) == {}
    assert made.decode({"a": None, "n": None}) == {"n": None}


def test_recursion_goes_into_json_text() -> None:
    node = closed({"name": TEXT, "children": {"type": "array", "items": {"$ref": "#"}}}, "name")
    made = wire("anthropic", node)
    inner: Any = {"name": "c", "children": [{"name": "d"}]}
    below: Any = {"name": "b", "children": [json.dumps(inner)]}

    read = made.decode({"name": "a", "children": [below]})

    assert made.schema is not None
    assert "JSON value of the form of `root`" in json.dumps(made.schema)
    assert any("inside itself" in note for note in made.notes)
    assert read == {"name": "a", "children": [{"name": "b", "children": [inner]}]}


def test_24_optional_members_have_room_and_the_25th_is_packed() -> None:
    names = [f"m{number:02}" for number in range(25)]
    fits = wire("anthropic", closed(dict.fromkeys(names[:24], TEXT)))
    full = wire("anthropic", closed(dict.fromkeys(names, TEXT)))

    assert fits.schema is not None
    assert full.schema is not None
    assert list(fits.schema["properties"]) == names[:24]  # type: ignore[arg-type]
    assert list(full.schema["properties"]) == [REST, *names[:24]]  # type: ignore[arg-type]
    assert fits.notes == ()
    assert full.notes == (
        "what `m24` of 25 together allows is carried as JSON text; checked after",
    )
    assert '"m24":{"type":"string"}' in full.schema["properties"][REST]["description"]  # type: ignore[call-overload, index, operator]
    assert full.decode({REST: '{"m24": "x"}', "m00": "y"}) == {"m24": "x", "m00": "y"}
    assert full.decode({REST: "", "m00": "y"}) == {"m00": "y"}


def test_16_members_of_several_types_have_room_and_the_17th_is_packed() -> None:
    names = [f"m{number:02}" for number in range(17)]
    several = {"type": ["string", "integer"]}
    made = wire("anthropic", closed(dict.fromkeys(names, several), *names))

    assert made.schema is not None
    assert list(made.schema["properties"]) == [*names[:16], REST]  # type: ignore[arg-type]
    assert made.decode({**dict.fromkeys(names[:16], 1), REST: '{"m16": 2}'}) == dict.fromkeys(
        names[:16], 1
    ) | {"m16": 2}


def test_members_that_may_be_null_take_no_room_of_unions_if_they_may_be_left_out() -> None:
    names = [f"m{number:02}" for number in range(18)]
    one_or_null = wire("anthropic", closed({key: {"type": ["string", "null"]} for key in names}))
    two_or_null = wire(
        "anthropic", closed({key: {"type": ["string", "integer", "null"]} for key in names})
    )

    assert one_or_null.schema is not None
    assert two_or_null.schema is not None
    assert list(one_or_null.schema["properties"]) == names  # type: ignore[arg-type]
    assert list(two_or_null.schema["properties"]) == [REST, *names[:16]]  # type: ignore[arg-type]


def test_a_root_that_is_itself_too_much_is_refused_with_what_to_change() -> None:
    deep: Any = TEXT
    for _ in range(9):
        deep = {"anyOf": [{"type": "array", "items": deep}, {"type": ["integer", "boolean"]}]}

    made = compiled("anthropic", deep)

    assert not isinstance(made, WireSchema)
    (problem,) = made.cause.problems  # type: ignore[union-attr]
    assert problem.expected == "at most 16 members of several types; it comes to 18 here"


@pytest.mark.parametrize(
    ("enum", "written", "read"),
    [
        (["a", "b"], "A", "a"),
        (["a", "b"], "b", "b"),
        (["a", "A"], "A", "A"),
        (["ab", "aB"], "AB", "AB"),
        (["a", "b"], "c", "c"),
    ],
)
def test_a_choice_in_another_case_is_the_one_that_it_can_only_be(
    enum: list[str], written: str, read: str
) -> None:
    made = wire("anthropic", closed({"v": {"enum": enum}}, "v"))

    assert made.decode({"v": written}) == {"v": read}


def test_a_tag_in_another_case_still_tells_the_alternatives_apart() -> None:
    one = closed({"kind": {"const": "one"}, "value": {"type": "object"}}, "kind", "value")
    two = closed({"kind": {"const": "two"}, "value": TEXT}, "kind", "value")
    made = wire("anthropic", closed({"v": {"oneOf": [one, two]}}, "v"))

    assert made.decode({"v": {"kind": "ONE", "value": "{}"}}) == {"v": {"kind": "one", "value": {}}}
    assert made.decode({"v": {"kind": "Two", "value": "1"}}) == {"v": {"kind": "two", "value": "1"}}


def test_alternatives_that_may_look_the_same_are_not_guessed_at() -> None:
    """Without their optional members both are `{"x": ...}`, and `x` is read in two ways."""
    one = closed({"x": {"type": "object"}, "y": TEXT}, "x")
    two = closed({"x": TEXT, "z": TEXT}, "x")

    made = wire("anthropic", closed({"v": {"anyOf": [one, two]}}, "v"))

    assert made.decode({"v": '{"x": "1"}'}) == {"v": {"x": "1"}}
