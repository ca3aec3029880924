"""Schemas with ids, anchors and references made by chance: two validators, one verdict."""

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import JsonValue
from referencing.exceptions import Unresolvable

from services.worker.core.schema.validator import SchemaValidator, compile_schema
from tests.oracle import is_valid

pytestmark = pytest.mark.wide

DRAFTS = [
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
REFS = ["#", "#x", "x", "y", "x#x", "y#x", "#/$defs/a", "#/allOf/0", "http://a/b#x", "x#/$defs/a"]
NAMED: dict[str, SearchStrategy[Any]] = {
    "$id": st.sampled_from(["x", "y", "http://a/b", "urn:u"]),
    "$anchor": st.sampled_from(["x", "y"]),
    "$dynamicAnchor": st.sampled_from(["x", "y"]),
    "$recursiveAnchor": st.booleans(),
    "$ref": st.sampled_from(REFS),
    "$dynamicRef": st.sampled_from(REFS),
    "$recursiveRef": st.just("#"),
    "type": st.sampled_from(["object", "array", "integer", "string"]),
    "const": st.sampled_from([1, {"$id": "x", "$ref": "#x"}]),
    "unevaluatedProperties": st.just(False),
}
PARTS = st.fixed_dictionaries({}, optional=NAMED)


def larger(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    members = st.dictionaries(st.sampled_from(["a", "b"]), inner, min_size=1, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    keywords = {"$defs": members, "properties": members, "items": inner, "allOf": several}
    return st.builds(
        lambda own, more: own | more,
        PARTS,
        st.fixed_dictionaries({}, optional=keywords | {"anyOf": several, "not": inner}),
    )


VALUES: list[JsonValue] = [
    1,
    "s",
    [1],
    ["s", [1]],
    {},
    {"a": 1},
    {"a": {"b": 1}},
    {"b": {"a": "s"}},
]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.recursive(PARTS, larger, max_leaves=8), st.sampled_from(DRAFTS))
def test_the_verdicts_are_those_of_a_second_validator(parts: Any, draft: str) -> None:
    schema = {**parts, "$schema": draft}
    authority = compile_schema(schema)
    assume(isinstance(authority, SchemaValidator))
    assert isinstance(authority, SchemaValidator)
    for value in VALUES:
        try:
            expected = is_valid(schema, value)
        except Unresolvable:  # an id beside `$ref` where the draft has none there
            return
        assert (not authority.problems(value)) == expected, value
