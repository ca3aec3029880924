"""A schema as lines: what is shown of each member, and an end for every schema."""

import pytest

from answerbus.registry import BUILT_IN, Registry
from services.console.views.schema_fields import LINES_MAX, SchemaField, schema_fields


def test_members_have_their_types_limits_and_meaning() -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string", "maxLength": 9, "description": "Whose."},
            "kind": {"const": "x"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
        },
        "$defs": {"Tag": {"title": "Tag", "properties": {"n": {"type": ["integer", "null"]}}}},
    }

    assert schema_fields(schema) == [
        SchemaField(0, "answer", "object", None, "", ""),
        SchemaField(1, "id", "string", True, "at most 9 characters", "Whose."),
        SchemaField(1, "kind", '"x"', False, "", ""),
        SchemaField(1, "tags", "array of Tag", False, "", ""),
        SchemaField(2, "each item", "any JSON", None, "", ""),
        SchemaField(3, "n", "integer | null", False, "", ""),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}},
        {
            "$ref": "#/$defs/A",
            "$defs": {
                "A": {"properties": {str(n): {"$ref": "#/$defs/A"} for n in range(40)}},
            },
        },
        {"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": 5}},
        {"properties": 5, "oneOf": 5, "items": True},
    ],
)
def test_every_schema_has_an_end(schema: dict[str, object]) -> None:
    assert 1 <= len(schema_fields(schema)) <= LINES_MAX


def test_contracts_that_ship_have_examples_that_are_valid() -> None:
    for contract in Registry():
        assert contract.examples
        for example in contract.examples:
            contract.adapter.validate_python(example, strict=False)
        assert len(schema_fields(contract.schema())) > 1
    assert BUILT_IN
