"""An answer is checked for size, JSON, wire shape and authority; nothing is mended."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.failure import Invalid, Malformed
from answerbus.limits import ANSWER_BYTES_MAX, ANSWER_VALUES_MAX
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef, TextRef
from services.worker.core.attempt.check import ANSWER_DEPTH_MAX, Checked, TooLarge, check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for


def checked(content: str, schema: Any = None, dialect: DialectName = "prompted") -> Checked:
    """`content` as an answer to a bare inline schema, or to plain text."""
    ref: SchemaRef = TextRef()
    if schema is not None:
        ref = InlineRef(name="x", wrapped=False, json_schema=schema)
    asked = resolve(ref, Registry([]))
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for(dialect, asked)
    assert isinstance(wire, WireSchema)
    return check(content, asked, wire)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("content", "answer"),
    [('{"a": 1}', {"a": 1}), (" null ", None), ("12345678901234567890", 12345678901234567890)],
)
def test_a_valid_answer_is_accepted_as_it_is(content: str, answer: JsonValue) -> None:
    assert checked(content, True) == Accepted(answer)


@pytest.mark.parametrize(
    ("content", "position"),
    [
        ("", 0),
        ('{"a": 1', 7),
        ('{"a": 1}}', 8),
        ('```json\n{"a": 1}\n```', 0),
        ('{"a": NaN}', 6),
        ('{"a": 1, "a": 2}', 0),
        ("{'a': 1}", 1),
        ('"\\ud800"', 7),
        ('"é\ud800"', 3),
        ("[1e999]", 0),
        (nested(300), 200),
    ],
)
def test_what_is_no_json_is_malformed_at_a_place(content: str, position: int) -> None:
    result = checked(content, True)

    assert isinstance(result, Malformed)
    assert abs(result.position - position) <= 1
    assert len(result.excerpt.encode()) <= 256


def test_what_breaks_the_schema_is_invalid() -> None:
    result = checked("5", {"type": "string"})

    assert isinstance(result, Invalid)
    assert [problem.code for problem in result.problems] == ["type"]


def test_what_breaks_the_wire_shape_is_invalid_too() -> None:
    result = checked('{"answer": "{no json"}', {"type": "array"}, "openai")

    assert isinstance(result, Invalid)
    assert [(problem.path, problem.code) for problem in result.problems] == [
        ("/answer", "json_text")
    ]


@pytest.mark.parametrize("schema", [True, None])
def test_size_comes_first(schema: Any) -> None:
    assert checked("x" * (ANSWER_BYTES_MAX + 1), schema) == TooLarge(ANSWER_BYTES_MAX + 1)
    assert checked("é" * ANSWER_BYTES_MAX, schema) == TooLarge(2 * ANSWER_BYTES_MAX)
    fits = json.dumps("x" * (ANSWER_BYTES_MAX - 2))
    assert isinstance(checked(fits, schema), Accepted if schema else TooLarge)


def test_an_answer_that_grows_when_it_is_written_again_is_measured_again() -> None:
    content = "[" + ",".join(["1E15"] * 17_000) + "]"

    assert len(content) <= ANSWER_BYTES_MAX
    assert checked(content, True) == TooLarge(len("1000000000000000.0,") * 17_000 + 1)


def test_an_answer_of_too_many_values_is_not_read() -> None:
    numbers = json.dumps([0] * (ANSWER_VALUES_MAX + 1))
    for content, dialect in (
        (numbers, "prompted"),
        (json.dumps({"answer": {"json_text": numbers}}), "openai"),
    ):
        result = checked(content, True, dialect)  # type: ignore[arg-type]
        assert isinstance(result, Invalid)
        assert [problem.code for problem in result.problems] == ["too_many_values"]


def escaped(answer: dict[str, dict[str, str]]) -> str:
    """With no bracket of its inner text written as one."""
    return json.dumps(answer).replace("[", "\\u005b").replace("]", "\\u005d")


def test_no_answer_nests_deeper_than_the_events_that_carry_it() -> None:
    assert isinstance(checked(nested(ANSWER_DEPTH_MAX), True), Accepted)
    for content, dialect in (
        (nested(ANSWER_DEPTH_MAX + 1), "prompted"),
        (json.dumps({"answer": {"json_text": nested(ANSWER_DEPTH_MAX + 1)}}), "openai"),
        (escaped({"answer": {"json_text": nested(ANSWER_DEPTH_MAX + 1)}}), "openai"),
    ):
        result = checked(content, True, dialect)  # type: ignore[arg-type]
        assert isinstance(result, Invalid)
        assert [problem.code for problem in result.problems] == ["too_deep"]


@pytest.mark.parametrize("content", ["", "{", "NaN", '{"a":1,"a":2}', "\x00\u2028"])
def test_any_text_is_a_text(content: str) -> None:
    assert checked(content) == Accepted(content)


def test_half_a_surrogate_pair_is_no_text() -> None:
    assert checked("é\ud800x") == Malformed(position=2, excerpt="é?x")
