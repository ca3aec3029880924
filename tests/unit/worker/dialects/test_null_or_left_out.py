"""Where null and "left out" are written alike, the one that satisfies the schema was meant."""

import json
from functools import partial
from typing import Any

import pytest

from answerbus.failure import Invalid
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.adapters.costly_work.pickled import dumps, loads
from services.worker.core.attempt.check import Checked, check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import (
    Accepted,
    DecodedAnswer,
    ResolvedSchema,
    Unusable,
    WireSchema,
)
from services.worker.dialects.dispatch import DialectName, compile_for
from services.worker.dialects.schema_cache import compiled_for

MAYBE = {"type": ["string", "null"]}
AT_MOST_ONE: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": MAYBE},
    "additionalProperties": False,
    "maxProperties": 1,
}
AT_LEAST_TWO = {**AT_MOST_ONE, "maxProperties": 2, "minProperties": 2}
NO_NAMES = {"type": "object", "properties": {"b": MAYBE}, "propertyNames": False}
OBJECTS_ALONE = {
    "type": "object",
    "properties": {"b": MAYBE},
    "patternProperties": {"^b$": {"type": "object"}},
}
TOGETHER = {**AT_MOST_ONE, "maxProperties": 2, "dependentRequired": {"b": ["a"]}}
INSIDE = {"type": "array", "items": AT_MOST_ONE}


def checked(dialect: DialectName, schema: Any, written: Any, *, wrapped: bool = False) -> Checked:
    asked = resolve(InlineRef(name="n", wrapped=wrapped, json_schema=schema), Registry([]))
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for(dialect, asked)
    assert isinstance(wire, WireSchema)
    return check(json.dumps(written), asked, wire)


@pytest.mark.parametrize(
    ("schema", "written", "answer"),
    [
        (AT_MOST_ONE, {"a": 1, "b": None}, {"a": 1}),
        (AT_MOST_ONE, {"a": None, "b": "x"}, {"b": "x"}),
        (NO_NAMES, {"b": None, "null_or_extra_json": None}, {}),
        (OBJECTS_ALONE, {"b": None, "null_or_extra_json": None}, {}),
        (TOGETHER, {"a": None, "b": None}, {}),
        (INSIDE, {"answer": [{"a": 1, "b": None}]}, [{"a": 1}]),
        (AT_LEAST_TWO, {"a": 1, "b": None}, {"a": 1, "b": None}),
    ],
)
def test_at_openai_null_may_say_left_out(schema: Any, written: Any, answer: Any) -> None:
    assert checked("openai", schema, written) == Accepted(answer)


@pytest.mark.parametrize(
    ("schema", "written", "answer"),
    [
        (AT_LEAST_TWO, {"a": 1}, {"a": 1, "b": None}),
        (AT_MOST_ONE, {"a": 1}, {"a": 1}),
        (TOGETHER, {}, {}),
    ],
)
def test_at_anthropic_left_out_may_say_null(schema: Any, written: Any, answer: Any) -> None:
    assert checked("anthropic", schema, written) == Accepted(answer)


def test_so_it_is_inside_of_a_wrapper() -> None:
    written = {"output": {"a": 1, "b": None}, "success": True, "notes": [], "failure_reason": None}
    found = checked("openai", AT_MOST_ONE, written, wrapped=True)

    assert isinstance(found, Accepted)
    assert found.answer == {**written, "output": {"a": 1}}


DIALECTS: list[DialectName] = ["openai", "anthropic", "gemini", "llama_cpp", "prompted"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_fits_in_neither_way_is_told_as_it_was_written(dialect: DialectName) -> None:
    found = checked(dialect, AT_MOST_ONE, {"a": "one", "b": None})

    assert isinstance(found, Invalid)
    assert {problem.path for problem in found.problems} >= {"/a"}


@pytest.mark.parametrize("dialect", ["gemini", "llama_cpp", "prompted"])
def test_where_both_can_be_written_each_means_itself(dialect: DialectName) -> None:
    assert isinstance(checked(dialect, AT_MOST_ONE, {"a": 1, "b": None}), Invalid)
    assert isinstance(checked(dialect, AT_LEAST_TWO, {"a": 1}), Invalid)


def test_a_schema_that_another_process_compiled_reads_answers_alike() -> None:
    ambiguous: dict[str, Any] = {"a": {"anyOf": [{"minimum": 3}, {"enum": [5, None, ["5"]]}]}}
    asked = InlineRef(name="n", wrapped=False, json_schema=AT_MOST_ONE | {"properties": ambiguous})
    here = compiled_for(partial(resolve, asked, Registry([])), "openai")
    there = loads(dumps(here))
    assert not isinstance(here, Unusable)
    readings = [wire.read({"a": None}) for _, wire in (here, there)]

    assert readings == [DecodedAnswer({})] * 2
