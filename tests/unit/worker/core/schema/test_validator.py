"""The authority on inline schemas: right verdicts, problems a model can act on, bounded work."""

import copy
import socket
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.dead_letter import HostileSchema, UnsupportedSchema
from answerbus.failure import Problem
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from tests.cpu_time import cpu_time

SECRET = "s3cret-of-the-input"
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "child": {"$ref": "#/$defs/node"}},
                    "required": ["kind"],
                }
                for kind in ("a", "b")
            ]
        }
    },
}


def authority(schema: Any) -> SchemaValidator:
    compiled = compile_schema(schema)
    assert isinstance(compiled, SchemaValidator), compiled
    return compiled


def problems(schema: Any, value: JsonValue) -> list[tuple[str, str, str]]:
    found = authority(schema).problems(value)
    return [(problem.path, problem.code, problem.expected) for problem in found]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (True, {"any": 1}, []),
        ({}, None, []),
        ({"type": "string"}, 5, [("", "type", 'a value of type "string"')]),
        (
            {"type": ["string", "null"], "maxLength": 2},
            "abc",
            [("", "maxLength", "at most 2 characters")],
        ),
        (
            {"required": ["a/b"], "additionalProperties": False, "properties": {"a/b": {}}},
            {SECRET: 1},
            [
                ("", "additionalProperties", "no members beyond those that the schema names"),
                ("", "required", 'the member "a/b"'),
            ],
        ),
        ({"items": {"enum": ["x", 1]}}, ["y"], [("/0", "enum", 'one of ["x", 1]')]),
        ({"properties": {"a~": False}}, {"a~": SECRET}, [("/a~0", "falseSchema", "nothing here")]),
        ({"minimum": 10**30}, 1, [("", "minimum", f"a number of at least {10**30}")]),
        ({"format": "date"}, SECRET, [("", "format", 'a text in the format "date"')]),
        (
            {"$schema": "https://json-schema.org/draft/2019-09/schema", "format": "uuid"},
            SECRET,
            [("", "format", 'a text in the format "uuid"')],
        ),
        (
            {"contains": {"const": "urgent"}},
            [SECRET],
            [("", "contains", 'at least 1 of the items to satisfy {"const": "urgent"}')],
        ),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"contains": {"minimum": 3}, "minContains": 2}}},
            [3, 1],
            [("", "contains", 'at least 2 of the items to satisfy {"minimum": 3}')],
        ),
        (
            {"contains": {}, "maxContains": 1},
            [1, 2],
            [("", "contains", "at least 1 and at most 1 of the items to satisfy {}")],
        ),
        (
            {"propertyNames": {"maxLength": 3}},
            {SECRET: 1},
            [("", "propertyNames", "members that are each named by at most 3 characters")],
        ),
        (
            {"propertyNames": {"enum": ["a"]}},
            {SECRET: 1},
            [("", "propertyNames", 'members that are each named by one of "a"')],
        ),
        (
            {"pattern": r"^\d+$"},
            SECRET,
            [("", "pattern", r"a text that matches the regular expression ^\d+$")],
        ),
        (
            {"additionalProperties": False},
            {SECRET: 1},
            [("", "falseSchema", "no members beyond those that the schema names")],
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": SECRET}, [("", "required", 'the member "b"')]),
    ],
)
def test_problems_say_where_and_what_and_never_quote_the_input(
    schema: Any, value: JsonValue, expected: list[tuple[str, str, str]] | None
) -> None:
    found = problems(schema, value)

    assert SECRET not in repr(found)
    assert found if expected is None else sorted(found) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"kind": "b", "child": {"kind": "a"}}, []),
        ({"kind": "b", "child": {"kind": "b", "child": 7}}, ["/child/child"]),
        ({"kind": "z"}, ["/kind"]),
        (7, [""]),
        ({}, [""]),
    ],
)
def test_of_a_union_the_problems_are_those_of_the_alternative_that_was_meant(
    value: JsonValue, expected: list[str]
) -> None:
    assert [path for path, _, _ in problems(TREE, value)] == expected


def test_a_wrong_tag_is_answered_with_the_tags_there_are() -> None:
    assert problems(TREE, {"kind": "z"}) == [("/kind", "tag", 'one of "a", "b"')]


def test_twenty_problems_are_enough() -> None:
    found = authority({"items": {"type": "string"}}).problems(list(range(1000)))

    assert found == tuple(
        Problem.of(f"/{place}", "type", 'a value of type "string"', found="a number")
        for place in range(20)
    )


@pytest.mark.parametrize("index", ["9" * 4_301, "00", "01", "2", "-1", "1_0", "\u0661"])
def test_an_index_that_no_list_has_leads_nowhere(index: str) -> None:
    """Python refuses to read a number of more than 4,300 digits."""
    refused = compile_schema({"anyOf": [{"type": "string"}, {"$ref": f"#/anyOf/{index}"}]})

    assert isinstance(refused, UnsupportedSchema)
    assert [problem.code for problem in refused.problems] == ["reference"]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (False, "root"),
        ({"type": "strin"}, "schema"),
        ({"multipleOf": 0}, "schema"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 5}, "schema"),
        ({"pattern": "(?=look)"}, "pattern"),
        ({"pattern": r"(a)\1"}, "pattern"),
        ({"pattern": "("}, "pattern"),
        ({"patternProperties": {"^(x{1,1000}){1,1000}$": {}}}, "pattern"),
        ({"allOf": [{"pattern": "(.{1,30}){1,30}" + str(i)} for i in range(1500)]}, "pattern"),
        ({"$ref": "https://user:s3cret@127.0.0.1/x"}, "reference"),
    ],
)
def test_what_does_not_compile_is_a_hostile_schema(schema: Any, code: str) -> None:
    with cpu_time() as cpu:
        refused = compile_schema(schema)

    assert isinstance(refused, HostileSchema)
    assert [problem.code for problem in refused.problems] == [code]
    assert "s3cret" not in refused.model_dump_json()
    assert cpu.is_below(1)


def test_nothing_is_fetched_and_no_id_is_taken_for_another_schema() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        place = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        assert isinstance(compile_schema({"$ref": place}), HostileSchema)
        assert isinstance(compile_schema({"$schema": place}), HostileSchema)
        mine = authority({"$id": place, "$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}})

        with pytest.raises(TimeoutError):
            server.accept()
    assert not mine.problems(None)
    assert mine.problems(0)


def test_a_schema_with_the_id_of_the_metaschema_harms_no_other() -> None:
    authority({"$id": "https://json-schema.org/draft/2020-12/schema", "type": "null"})

    assert problems({"type": "string"}, "honest") == []
    assert isinstance(compile_schema({"type": 7}), HostileSchema)


def chain(levels: int) -> JsonValue:
    value: JsonValue = {"kind": "z"}
    for _ in range(levels):
        value = {"kind": "b", "child": value}
    return value


@pytest.mark.wide
@pytest.mark.parametrize(
    ("schema", "value", "code"),
    [
        (TREE, chain(150), "schema"),
        ({"items": {"anyOf": [{"const": i} for i in range(3000)]}}, [2999] * 20_000, "too_costly"),
        ({"pattern": "[ab]*a[ab]{4000}x"}, "ab" * 50_000, "too_costly"),
        ({"items": {"required": [f"m{i}" for i in range(2000)]}}, [{}] * 2000, "schema"),
    ],
)
def test_checking_takes_little_time_even_where_the_value_is_made_for_it(
    schema: Any, value: JsonValue, code: str
) -> None:
    compiled = authority(schema)
    with cpu_time() as cpu:
        found = compiled.problems(value)

    assert [problem.code for problem in found] == [code]
    assert cpu.is_below(1)


def test_heavy_patterns_and_large_schemas_still_check_answers_of_ordinary_size() -> None:
    fields = {f"f{i}": {"type": "string", "pattern": r"^(?:\S+\s+){0,99}\S+$"} for i in range(4)}
    large = {"properties": {f"p{i}": {"type": "integer"} for i in range(2000)}}
    words: JsonValue = dict.fromkeys(fields, "two words " * 20 + "end")

    assert problems({"properties": fields}, words) == []
    assert problems(large, {f"p{i}": i for i in range(2000)}) == []


@pytest.mark.parametrize("classes", [r"\s" * 100, r"\w" * 300])
def test_a_pattern_of_many_classes_is_not_compiled_where_an_event_loop_waits(classes: str) -> None:
    """Its automaton is small, and yet the engine takes long to read it."""
    arrived = copy.copy(authority({"pattern": classes}))  # as from another process
    with sparing(), pytest.raises(TooMuchWorkError):
        arrived.problems("x")
    assert [problem.code for problem in arrived.problems("x")] == ["pattern"]
