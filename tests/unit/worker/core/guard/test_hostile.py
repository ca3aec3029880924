"""What may not even be compiled is found before it is, in little time, and never quoted."""

from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.limits import INLINE_SCHEMA_BYTES_MAX
from services.worker.core.guard.expansion import expanded_nodes
from services.worker.core.guard.hostile import admit
from services.worker.core.json_schema.document import Document
from tests.cpu_time import cpu_time

SECRET = "https://user:s3cret@example.org/schema.json"


def nested(levels: int) -> dict[str, JsonValue]:
    schema: dict[str, JsonValue] = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


def doubling(times: int) -> dict[str, JsonValue]:
    """2^times visits in a text that is linear in `times`."""
    definitions: dict[str, JsonValue] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]}
        for i in range(times)
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{times}": {"type": "integer"}}}


def guard(schema: object) -> tuple[Problem, ...]:
    """Empty if it may be compiled."""
    admitted = admit(schema)
    return () if isinstance(admitted, Document) else admitted.problems


def refused(schema: object) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in guard(schema)]


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
        {"$schema": "https://json-schema.org/draft/2019-09/schema"},
        {"$id": "https://example.org/x", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}},
        {"$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"next": {"$ref": "#"}, "$ref": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {}}},
        {"properties": {"a": {"$id": "https://example.org/a", "type": "string"}}},
        {"$ref": "#/elsewhere/x", "elsewhere": {"x": {"type": "string"}}},
        nested(32),
        {"enum": ["x" * (INLINE_SCHEMA_BYTES_MAX - 13)]},
        doubling(10),
    ],
)
def test_an_ordinary_schema_passes(schema: Any) -> None:
    assert guard(schema) == ()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (False, [("", "root")]),
        (None, [("", "root")]),
        ([], [("", "root")]),
        ("string", [("", "root")]),
        (nested(33), [("", "depth")]),
        (nested(100_000), [("", "depth")]),
        ({"enum": ["x" * (INLINE_SCHEMA_BYTES_MAX - 12)]}, [("", "size")]),
        ({"description": "é" * INLINE_SCHEMA_BYTES_MAX}, [("", "size")]),
        (doubling(13), [("", "expansion")]),
        ({"$ref": SECRET}, [("/$ref", "reference")]),
        ({"$ref": "file:///etc/passwd"}, [("/$ref", "reference")]),
        ({"$ref": "#name", "$anchor": "other"}, [("/$ref", "reference")]),
        ({"items": {"$ref": "#/nowhere"}}, [("/items/$ref", "reference")]),
        ({"items": {"$ref": "#/maxItems"}, "maxItems": 1}, [("/items/$ref", "reference")]),
        ({"$defs": {"a": {"$ref": "other.json"}}}, [("/$defs/a/$ref", "reference")]),
        ({"$ref": "#/x", "x": {"not": {"$ref": SECRET}}}, [("/x/not/$ref", "reference")]),
        ({"$schema": SECRET}, [("/$schema", "draft")]),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, [("/$schema", "draft")]),
        ({"$schema": 7}, [("/$schema", "draft")]),
        (
            {"not": {"$schema": "http://json-schema.org/draft-04/schema#"}},
            [("/not/$schema", "draft")],
        ),
        ({"$dynamicRef": "#x"}, [("/$dynamicRef", "dynamic_reference")]),
        ({"not": {"$recursiveRef": "#"}}, [("/not/$recursiveRef", "dynamic_reference")]),
        (
            {
                "properties": {"a": {"$id": "urn:x", "not": {"$ref": "#/$defs/b"}}},
                "$defs": {"b": {}},
            },
            [("/properties/a/not/$ref", "reference")],
        ),
    ],
)
def test_a_hostile_schema_is_refused_by_place_and_code(
    schema: Any, expected: list[tuple[str, str]]
) -> None:
    assert refused(schema) == expected


@pytest.mark.parametrize("schema", [{"$ref": SECRET}, {"$schema": SECRET}, {"$id": SECRET}])
def test_no_problem_repeats_what_was_sent(schema: Any) -> None:
    assert "s3cret" not in repr(guard(schema))


def test_many_faults_are_reported_up_to_the_limit() -> None:
    assert len(guard({"allOf": [{"$ref": "x"} for _ in range(50)]})) == 20


def test_expansion_is_counted_without_being_done() -> None:
    with cpu_time() as cpu:
        nodes = expanded_nodes(Document(doubling(400)), 5000)

    assert nodes == 5001
    assert cpu.is_below(0.5)


@pytest.mark.parametrize(
    ("schema", "nodes"),
    [
        (True, 1),
        ({"properties": {"a": True, "b": {"items": {}}}}, 4),
        ({"$ref": "#"}, 1),
        ({"properties": {"next": {"$ref": "#"}}}, 2),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"not": {}}, "unused": {"not": {}}}}, 3),
        ({"allOf": [{"$ref": "#/$defs/a"}] * 3, "$defs": {"a": {"not": {}}}}, 10),
    ],
)
def test_each_use_of_a_definition_counts_and_recursion_once(schema: Any, nodes: int) -> None:
    assert expanded_nodes(Document(schema), 5000) == nodes


def test_a_long_chain_of_references_needs_no_deep_stack() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(1500)}

    assert guard({"$ref": "#/$defs/d0", "$defs": chain | {"d1500": {"type": "null"}}}) == ()


# To sort them, as normalizing does, takes the square of their number.
MARKS = "\u0301" * 13_000 + "\u0316" * 13_000
LONG_ADDRESSES: dict[str, dict[str, JsonValue]] = {
    "pointer": {"$ref": "#" + "/" * 60_000},
    "ref": {"$ref": f"http://a{MARKS}/"},
    "id": {"$id": f"http://a{MARKS}/"},
    "draft": {"$schema": f"http://a{MARKS}/"},
    "base": {
        "$id": "http://a/" + "a/" * 15_000,
        "$defs": {f"d{number}": {"$id": f"b{number}"} for number in range(1_000)},
    },
}


@pytest.mark.parametrize("schema", LONG_ADDRESSES.values(), ids=LONG_ADDRESSES.keys())
def test_a_long_address_is_looked_at_in_little_time(schema: dict[str, JsonValue]) -> None:
    with cpu_time() as cpu:
        guard(schema)

    assert cpu.is_below(0.2)


def test_a_long_pointer_that_leads_somewhere_is_followed() -> None:
    name = "a" * 2_000

    assert refused({"$ref": f"#/$defs/{name}", "$defs": {name: {}}}) == []
    assert refused({"$ref": f"#/$defs/{name}"}) == [("/$ref", "reference")]
