"""Schemas with parts that mean nothing, or something else: refused or read, and never misread."""

import copy
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.attempt.check import check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.oracle import is_valid
from tests.schemas import ANYTHING, SCHEMAS, recursive

pytestmark = pytest.mark.wide

INNER = SCHEMAS.map(lambda made: made.schema)
ONE = ["not", "if", "then", "else", "items", "contains", "propertyNames", "additionalProperties"]
SEVERAL = ["anyOf", "oneOf", "allOf", "prefixItems"]
NUMBERED = ["minItems", "maxItems", "minLength", "maxLength", "minimum", "maxProperties"]
NAMING = ["$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$ref", "$recursiveRef"]
ADDRESSES = ["#", "x", "#x", "y#x", "urn:x", "http://[#x", "http://x/../y", "#%", "//x", "?", "x#/"]
WHATEVER = ["type", "properties", "required", "enum", "const", "$ref", "$defs", "format", "pattern"]
TEXTS = ["", "a", "^a$", "(?=x)", "[", "#", "#/", "#/$defs/x", "#/properties", "http://x", "date"]
NUMBERS = [0, -1, 1.5, 1e308, 10**400, 2**53 + 1]
LISTS: list[Any] = [[], ["a"], ["a", "a"], [[]], [{}], [{"type": "string"}, True]]
OBJECTS = [{}, {"$ref": "#"}, {"type": "string"}, {"a": True}, {"a": ["b"]}, {"": {}}, {"not": {}}]
ODD = st.sampled_from([None, True, False, *TEXTS, *NUMBERS, *LISTS, *OBJECTS])
CHANGES: SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.sampled_from(ONE), INNER),
    st.tuples(st.sampled_from(SEVERAL), st.lists(INNER, min_size=1, max_size=2)),
    st.tuples(st.sampled_from(NUMBERED), st.integers(0, 3)),
    st.tuples(st.sampled_from([*ONE, *SEVERAL, *NUMBERED, *WHATEVER]), ODD),
    st.tuples(st.sampled_from(NAMING), st.sampled_from(ADDRESSES)),
)
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)


def containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


def damaged(schema: Any, data: DataObject) -> Any:
    """The schema with something else in one place or two."""
    schema = copy.deepcopy(schema) if isinstance(schema, dict) else {"allOf": [schema]}
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(list(containers(schema))))
        keyword, value = copy.deepcopy(data.draw(CHANGES))
        if isinstance(place, dict):
            place[keyword] = value
        elif place:
            place[data.draw(st.integers(0, len(place) - 1))] = value
    return schema


@pytest.mark.long
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(SCHEMAS | recursive(), st.data(), ANYTHING)
def test_a_damaged_schema_is_refused_or_means_what_it_says(
    made: Any, data: DataObject, other: JsonValue
) -> None:
    schema = damaged(made.schema, data)
    asked = resolve(InlineRef(name="x", wrapped=False, json_schema=schema), Registry([]))
    if isinstance(asked, Unusable):
        return
    for answer in (data.draw(made.answers), other):
        assert isinstance(asked, ResolvedSchema)
        assert isinstance(asked.read(answer), Accepted) == is_valid(schema, answer)
        for dialect in DIALECTS:
            wire = compile_for(dialect, asked)
            if not isinstance(wire, Unusable):
                check(json.dumps(answer), asked, wire)
                Draft202012Validator.check_schema(wire.schema or {})
