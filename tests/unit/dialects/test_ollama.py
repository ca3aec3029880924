"""The dialect `ollama`: types, members and choices; all else is checked after."""

import json
from typing import Any

import pytest

from tests.unit.dialects.compiling import closed, sent, wire

TEXT: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "^a$", "format": "date"}, TEXT),
        ({"type": "integer", "minimum": 1}, {"type": "integer"}),
        ({"type": "array", "items": TEXT, "minItems": 3}, {"type": "array", "items": TEXT}),
        ({"enum": ["a", None]}, {"type": ["null", "string"], "enum": ["a", None]}),
        (
            closed({"o": TEXT, "r": TEXT}, "r"),
            closed({"o": {"type": ["string", "null"]}, "r": TEXT}, "o", "r"),
        ),
    ],
)
def test_what_is_sent(schema: Any, expected: Any) -> None:
    assert json.dumps(sent("ollama", schema)) == json.dumps(expected)


def test_each_rule_that_is_not_told_is_noted() -> None:
    made = wire("ollama", closed({"v": {"type": "string", "pattern": "^a$", "maxLength": 3}}, "v"))

    assert made.notes == (
        "`maxLength` is not enforced by this provider; checked after (at /properties/v)",
        "`pattern` is not enforced by this provider; checked after (at /properties/v)",
    )


def test_recursion_goes_into_json_text() -> None:
    made = wire("ollama", closed({"next": {"$ref": "#"}}))
    deeper: Any = {"next": {"next": {}}}

    assert made.decode({"next": {"next": json.dumps(deeper)}}) == {"next": {"next": deeper}}
    assert made.decode({"next": None}) == {}
