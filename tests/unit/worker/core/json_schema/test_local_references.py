"""Ids, anchors and dynamic references inside one document: as the drafts say, and bounded."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from answerbus.dead_letter import HostileSchema, UnsupportedSchema
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.attempt.check import check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, Unusable, WireSchema
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.cpu_time import cpu_time
from tests.oracle import is_valid

D4 = "http://json-schema.org/draft-04/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D2019 = "https://json-schema.org/draft/2019-09/schema"

TREE: dict[str, Any] = {
    "$id": "https://example.org/tree",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
}
STRICT_TREE: dict[str, Any] = {
    "$id": "https://example.org/strict-tree",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {"tree": TREE},
}
LIST: dict[str, Any] = {
    "$id": "https://example.org/list",
    "type": "array",
    "items": {"$dynamicRef": "#item"},
    "$defs": {"any": {"$dynamicAnchor": "item"}},
}
TWO_LISTS: dict[str, Any] = {
    "properties": {"numbers": {"$ref": "numbers"}, "texts": {"$ref": "texts"}},
    "$defs": {
        "n": {
            "$id": "https://example.org/numbers",
            "$ref": "list",
            "$defs": {"n": {"$dynamicAnchor": "item", "type": "number"}},
        },
        "t": {
            "$id": "https://example.org/texts",
            "$ref": "list",
            "$defs": {"t": {"$dynamicAnchor": "item", "type": "string"}},
        },
        "l": LIST,
    },
    "$id": "https://example.org/two",
}
RECURSIVE: dict[str, Any] = {
    "$schema": D2019,
    "$id": "https://example.org/strict",
    "$recursiveAnchor": True,
    "$ref": "loose",
    "unevaluatedProperties": False,
    "$defs": {
        "loose": {
            "$id": "loose",
            "$recursiveAnchor": True,
            "properties": {"child": {"$recursiveRef": "#"}},
        }
    },
}
CASES: list[tuple[Any, list[JsonValue], list[JsonValue]]] = [
    ({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "integer"}}}, [1], ["1"]),
    (
        {"$id": "urn:example:root", "$ref": "urn:example:root#a", "$defs": {"x": {"$anchor": "a"}}}
        | {"type": "null"},
        [None],
        [1],
    ),
    (
        {
            "$id": "http://example.org/root.json",
            "properties": {"a": {"$ref": "sub/item.json"}, "b": {"$ref": "#/$defs/s/$defs/t"}},
            "$defs": {
                "s": {
                    "$id": "sub/item.json",
                    "$ref": "#/$defs/t",
                    "$defs": {"t": {"type": "integer"}},
                }
            },
        },
        [{"a": 1, "b": 2}],
        [{"a": "1"}, {"b": "2"}],
    ),
    (
        {
            "$schema": D7,
            "items": {"$ref": "#word"},
            "definitions": {"w": {"$id": "#word", "type": "string"}},
        },
        [["a"]],
        [[1]],
    ),
    (
        {"$schema": D4, "items": {"$ref": "#w"}, "definitions": {"w": {"id": "#w", "maximum": 3}}},
        [[3]],
        [[4]],
    ),
    (
        {
            "$schema": D7,
            "$id": "http://example.org/base/",
            "allOf": [{"$id": "ignored/", "$ref": "one.json"}],
            "definitions": {"a": {"$id": "one.json", "type": "integer"}},
        },
        [1],
        ["1"],
    ),
    (TREE, [{"children": [{"data": 1, "daat": 1}]}], [{"children": [5]}]),
    (STRICT_TREE, [{"children": [{"data": 1}]}], [{"children": [{"daat": 1}]}, {"x": 1}]),
    (LIST, [[1, "a", None]], [{}]),
    (
        TWO_LISTS,
        [{"numbers": [1], "texts": ["a"]}],
        [{"numbers": ["a"]}, {"texts": [1]}, {"texts": {}}],
    ),
    (RECURSIVE, [{"child": {"child": {}}}], [{"child": {"x": 1}}, {"x": 1}]),
    ({"const": {"$anchor": "a", "$ref": "#b"}}, [{"$anchor": "a", "$ref": "#b"}], [{}]),
    ({"properties": {"$anchor": {"type": "null"}, "$id": {"$ref": "#x"}}}
     | {"$defs": {"x": {"$anchor": "x", "type": "string"}}}, [{"$id": "a"}], [{"$id": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES)
def test_what_stays_inside_the_document_means_what_the_drafts_say(
    schema: Any, valid: list[JsonValue], invalid: list[JsonValue]
) -> None:
    before = json.dumps(schema)
    authority = compile_schema(schema)
    assert isinstance(authority, SchemaValidator), authority

    assert [value for value in valid if authority.problems(value)] == []
    assert [value for value in invalid if not authority.problems(value)] == []
    for value in (*valid, *invalid):
        assert is_valid(schema, value) == (value in valid)
        assert jsonschema_rs.is_valid(schema, value, offline=True) == (value in valid)
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    "dialect", ["openai", "anthropic", "gemini", "llama_cpp", "ollama", "prompted"]
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_every_dialect_carries_it(dialect: DialectName, *, wrapped: bool) -> None:
    for schema, valid, _ in CASES:
        found = resolve(InlineRef(name="x", wrapped=wrapped, json_schema=schema), Registry([]))
        assert isinstance(found, ResolvedSchema)
        wire = compile_for(dialect, found)
        assert isinstance(wire, WireSchema)
        if dialect in {"llama_cpp", "ollama", "prompted"}:
            answer: JsonValue = valid[0]
            if wrapped:
                answer = {"success": True, "output": answer, "notes": []}
            assert isinstance(check(json.dumps(answer), found, wire), Accepted)


def defined(**schemas: Any) -> dict[str, Any]:
    return {"$ref": "#/$defs/a", "$defs": schemas}


CIRCLES: list[Any] = [
    {"$ref": "#"},
    defined(a={"$ref": "#/$defs/a"}),
    defined(a={"$ref": "#/$defs/b"}, b={"$ref": "#/$defs/a"}),
    {"allOf": [{"$ref": "#"}]},
    {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
    {"oneOf": [True, {"$ref": "#"}]},
    {"not": {"$ref": "#"}},
    {"if": {"$ref": "#"}},
    {"if": True, "then": {"$ref": "#"}},
    {"if": False, "else": {"$ref": "#"}},
    {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"$schema": D7, "dependencies": {"a": {"$ref": "#"}}},
    {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"anyOf": [{"not": {"$ref": "#/$defs/a"}}]}}},
    defined(a={"allOf": [{"type": "object"}, {"anyOf": [{"$ref": "#/$defs/b"}]}]},
            b={"oneOf": [{"type": "null"}, {"if": {"$ref": "#/$defs/a"}}]}),
    {"$anchor": "me", "allOf": [{"$ref": "#me"}]},
    {"$id": "https://example.org/me", "anyOf": [{"$ref": "https://example.org/me"}]},
    {"$dynamicAnchor": "me", "$dynamicRef": "#me"},
    {"$schema": D2019, "$recursiveRef": "#"},
]  # fmt: skip


@pytest.mark.parametrize("schema", CIRCLES, ids=json.dumps)
def test_what_comes_back_to_itself_without_a_step_is_not_supported(schema: Any) -> None:
    refused = compile_schema(schema)

    assert isinstance(refused, UnsupportedSchema)
    assert [problem.code for problem in refused.problems] == ["cycle"]
    for wrapped in (False, True):
        ref = InlineRef(name="x", wrapped=wrapped, json_schema=schema)
        assert resolve(ref, Registry([])) == Unusable(refused)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#"}}},
        {"items": {"$ref": "#"}},
        {"additionalProperties": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
        {"patternProperties": {"a": {"$ref": "#"}}},
        {"propertyNames": {"$ref": "#"}},
        {"contains": {"$ref": "#"}},
        {"prefixItems": [{"$ref": "#"}]},
        {"unevaluatedProperties": {"$ref": "#"}},
        {"$defs": {"unused": {"$ref": "#/$defs/unused"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 2}, "b": {}}},
        {"$schema": D7, "$ref": "#/definitions/a", "allOf": [{"$ref": "#"}]}
        | {"definitions": {"a": {"type": "null"}}},
    ],
    ids=json.dumps,
)
def test_recursion_that_takes_a_step_is_ordinary(schema: Any) -> None:
    authority = compile_schema(schema)

    assert isinstance(authority, SchemaValidator)
    values: list[JsonValue] = [None, {"a": [{"a": None}]}, [[[]]], "a"]
    for value in values:
        assert is_valid(schema, value) == (not authority.problems(value))


APPLICATORS = ["allOf", "anyOf", "oneOf", "not", "if", "items", "properties", "contains", "$ref"]


@pytest.mark.wide
@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(APPLICATORS), st.integers(0, 3)), min_size=4, max_size=4),
    st.recursive(
        st.none() | st.integers(0, 1),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("p"), inner),
    ),
)
def test_no_validator_recurses_for_ever_in_what_is_taken(
    edges: list[tuple[str, int]], value: JsonValue
) -> None:
    def applied(keyword: str, target: int) -> Any:
        ref = {"$ref": f"#/$defs/d{target}"}
        match keyword:
            case "$ref":
                return ref
            case "allOf" | "anyOf" | "oneOf":
                return {keyword: [{"type": ["integer", "array"]}, ref]}
            case "properties":
                return {keyword: {"p": ref}}
            case _:
                return {keyword: ref}

    definitions = {f"d{i}": applied(*edge) for i, edge in enumerate(edges)}
    schema: Any = {"$ref": "#/$defs/d0", "$defs": definitions}
    authority = compile_schema(schema)
    if isinstance(authority, SchemaValidator):
        assert is_valid(schema, value) == (not authority.problems(value))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"$ref": "#/nowhere"}, UnsupportedSchema),
        ({"$ref": "#nowhere"}, UnsupportedSchema),
        ({"$ref": "other.json"}, UnsupportedSchema),
        ({"$ref": "https://example.org/other.json"}, UnsupportedSchema),
        ({"$dynamicRef": "#nowhere"}, UnsupportedSchema),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, UnsupportedSchema),
        ({"$schema": "https://example.org/own"}, UnsupportedSchema),
        ({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}, UnsupportedSchema),
        ({"items": {"$id": "x#y", "$ref": "#"}}, UnsupportedSchema),
        ({"items": {"$id": "http://[", "items": {"$ref": "#"}}}, UnsupportedSchema),
        ({"$ref": "file:///etc/passwd"}, HostileSchema),
        ({"$ref": "http://169.254.169.254/latest"}, HostileSchema),
        ({"$ref": "http://[::1]/x"}, HostileSchema),
        ({"$ref": "http://[::1/x"}, HostileSchema),
        ({"$ref": "https://user:pass@example.org/x"}, HostileSchema),
        ({"$ref": "ftp://example.org/x"}, HostileSchema),
        ({"$schema": "http://127.0.0.1/x"}, HostileSchema),
    ],
)
def test_references_out_of_the_document_are_distinguished_from_attacks(
    schema: Any, kind: type
) -> None:
    refused = compile_schema(schema)

    assert type(refused) is kind
    assert "passwd" not in repr(refused)


SECOND = "/$defs/b"
NAMED_TWICE: list[tuple[Any, list[str]]] = [
    ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, [SECOND]),
    ({"$ref": "#x", "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, [SECOND]),
    ({"$anchor": "x", "items": {"$anchor": "x", "type": "null"}}, ["/items"]),
    ({"$defs": {"a": {"$anchor": "x"}, "b": {"$dynamicAnchor": "x"}}}, [SECOND]),
    ({"$defs": {"a": {"$dynamicAnchor": "x"}, "b": {"$dynamicAnchor": "x"}}}, [SECOND]),
    ({"$id": "s", "$defs": {"a": {"$id": "t", "items": {"$anchor": "x"}, "$anchor": "x"}}},
     ["/$defs/a/items"]),
    ({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}, [SECOND]),
    ({"$defs": {"a": {"$id": "x"}, "b": {"$id": "./x#"}}}, [SECOND]),
    ({"$id": "http://example.org/x", "$defs": {"b": {"$id": "/x"}}}, [SECOND]),
    ({"$schema": D2019, "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, [SECOND]),
    ({"$schema": D7, "definitions": {"a": {"$id": "#x"}, "b": {"$id": "#x"}}}, ["/definitions/b"]),
    ({"$schema": D4, "definitions": {"a": {"id": "#x"}, "b": {"id": "#x"}}}, ["/definitions/b"]),
    # A schema under a keyword that nobody knows is one because a reference leads there.
    ({"$ref": "#/own", "own": {"$anchor": "x"}, "$defs": {"b": {"$anchor": "x"}}}, ["/own"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "places"), NAMED_TWICE, ids=json.dumps)
@pytest.mark.parametrize("wrapped", [False, True])
def test_one_name_of_two_schemas_is_not_supported(
    schema: Any, places: list[str], *, wrapped: bool
) -> None:
    refused = compile_schema(schema)

    assert isinstance(refused, UnsupportedSchema)
    assert [(problem.path, problem.code) for problem in refused.problems] == [
        (place, "id") for place in places
    ]
    ref = InlineRef(name="x", wrapped=wrapped, json_schema=schema)
    assert resolve(ref, Registry([])) == Unusable(refused)


@pytest.mark.parametrize(
    "schema",
    [
        {"$anchor": "x", "$dynamicAnchor": "x"},
        {"$anchor": "x", "$defs": {"b": {"$id": "b", "$anchor": "x"}}},
        {"$anchor": "x", "const": {"$anchor": "x"}, "examples": [{"$anchor": "x"}]},
        {"$anchor": "x", "properties": {"$anchor": {"$anchor": "y"}}},
        {"$schema": D7, "definitions": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
        {"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "null"}, "b": {"$ref": "#x"}}},
    ],
    ids=json.dumps,
)
def test_a_name_is_taken_once_in_its_own_resource(schema: Any) -> None:
    assert isinstance(compile_schema(schema), SchemaValidator)


def test_a_schema_that_multiplies_through_anchors_and_scopes_is_refused_in_time() -> None:
    anchors = {
        f"d{i}": {"$anchor": f"a{i}", "allOf": [{"$ref": f"#a{i + 1}"}] * 2} for i in range(40)
    }
    doubling: Any = {"$ref": "#a0", "$defs": anchors | {"end": {"$anchor": "a40"}}}
    # Each of twelve names is marked by two resources, and any of them may be entered first.
    ways = {str(i): {"$ref": str(i)} for i in range(24)}
    entered = {
        f"e{i}": {
            "$id": str(i),
            "properties": ways,
            "$defs": {"x": {"$dynamicAnchor": f"n{i // 2}"}},
        }
        for i in range(24)
    }
    scopes: Any = {"$id": "https://example.org/", "properties": ways, "$defs": entered}
    scopes["items"] = {"$dynamicRef": "0#n0"}
    for schema in (doubling, scopes):
        with cpu_time() as cpu:
            refused = compile_schema(schema)

        assert isinstance(refused, HostileSchema)
        assert refused.problems[0].code == "expansion"
        assert cpu.is_below(1)
