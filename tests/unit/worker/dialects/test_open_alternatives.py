"""Alternatives whose further members travel as JSON text: nothing of that text is published."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus import failure
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.attempt.check import Checked, check
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for

PACKING: list[DialectName] = ["openai", "anthropic", "gemini"]
EACH = pytest.mark.parametrize("dialect", PACKING)
REST = "null_or_extra_json"


def alternative(required: str, **shapes: Any) -> dict[str, Any]:
    return {"type": "object", "properties": shapes, "required": [required]}


INTEGER = {"type": "integer"}
TAGGED = {"oneOf": [alternative("kind", kind={"const": tag}, n=INTEGER) for tag in "xy"]}
BARE = {
    "anyOf": [
        alternative("m", m=INTEGER, a={"type": "array", "items": INTEGER}),
        alternative("m", m=INTEGER),
    ]
}
FREE = {"anyOf": [alternative("m", m=INTEGER, free={}), alternative("m", m=INTEGER, b=INTEGER)]}


def asked(dialect: DialectName, schema: dict[str, Any]) -> tuple[ResolvedSchema, WireSchema]:
    found = resolve(InlineRef(name="mine", wrapped=False, json_schema=schema), Registry([]))
    assert isinstance(found, ResolvedSchema)
    wire = compile_for(dialect, found)
    assert isinstance(wire, WireSchema)
    return found, wire


def published(dialect: DialectName, schema: dict[str, Any], inner: JsonValue) -> Checked:
    return check(json.dumps({"answer": inner}), *asked(dialect, schema))


@EACH
@pytest.mark.parametrize(
    ("schema", "written", "meant"),
    [
        (TAGGED, {"kind": "y", "u": "kg", REST: '{"b": 2}'}, {"kind": "y", "u": "kg", "b": 2}),
        (TAGGED, {"kind": "y", "u": "kg", REST: None}, {"kind": "y", "u": "kg"}),
        (TAGGED, {"kind": "y", "n": 1.0, REST: ""}, {"kind": "y", "n": 1.0}),
        (BARE, {"m": 1, "a": "x", REST: None}, {"m": 1, "a": "x"}),
        (BARE, {"m": 1, "a": "x", REST: '{"b": 2}'}, {"m": 1, "a": "x", "b": 2}),
        # The first alternative has a place for `a`, the second has none.
        (BARE, {"m": 1, REST: '{"a": "x"}'}, {"m": 1, "a": "x"}),
    ],
)
def test_further_members_are_unpacked_also_where_an_answer_is_as_no_alternative_is_written(
    dialect: DialectName, schema: dict[str, Any], written: JsonValue, meant: JsonValue
) -> None:
    assert published(dialect, schema, written) == Accepted(meant)


@EACH
@pytest.mark.parametrize(
    ("schema", "written", "fault"),
    [
        (TAGGED, {"kind": "z", "n": 1, REST: None}, ("/kind", "tag")),
        (TAGGED, {"kind": "x", "n": "1", REST: '{"b": 2}'}, ("/n", "type")),
        (TAGGED, {"kind": "x", "u": 1, REST: '{"b": 2'}, (f"/answer/{REST}", "json_text")),
        (BARE, {"m": 1, "a": [], REST: '{"a": "x"}'}, (f"/answer/{REST}", "json_text")),
        # In one alternative, `free` is JSON text, in the other it is what it is.
        (FREE, {"m": 1, "b": "x", "free": "5", REST: None}, (f"/answer/{REST}", "json_text")),
    ],
)
def test_what_is_wrong_is_said_of_the_members_that_were_meant(
    dialect: DialectName, schema: dict[str, Any], written: JsonValue, fault: tuple[str, str]
) -> None:
    checked = published(dialect, schema, written)

    assert isinstance(checked, failure.Invalid)
    assert [(problem.path, problem.code) for problem in checked.problems] == [fault]


@pytest.mark.wide
@pytest.mark.parametrize("dialect", ["openai", "gemini"])  # others have no room for so many
def test_members_that_an_answer_lacks_are_paid_for(dialect: DialectName) -> None:
    """They are looked for in each value, in each alternative."""
    many = {f"m{n}": {"type": "string"} for n in range(1_000)}
    union = {"anyOf": [alternative("m0", kind={"const": tag}, **many) for tag in "xy"]}
    _, wire = asked(dialect, {"type": "array", "items": union})
    item: JsonValue = {"kind": "y", "m0": "", REST: ""}

    with sparing(), pytest.raises(TooMuchWorkError):
        wire.read({"answer": [item] * 600})
