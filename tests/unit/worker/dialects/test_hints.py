"""JSON text has a hint of what it must hold, in the wire schema and in the problem of an answer."""

import json
from typing import Any

from answerbus.failure import Invalid
from tests.unit.worker.dialects.compiling import wire


def test_a_hint_says_what_json_text_must_hold() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    sent = json.dumps(wire("openai", schema).schema).replace('\\"', '"')

    assert json.dumps(schema, separators=(",", ":")) in sent


def test_a_text_that_is_no_json_is_answered_with_what_it_must_hold() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"args": {"type": "object"}},
        "required": ["args"],
        "additionalProperties": False,
    }
    decoded = wire("openai", schema).decode({"args": "Paris"})

    assert isinstance(decoded, Invalid)
    assert [problem.expected for problem in decoded.problems] == [
        (
            "A JSON value, written as JSON text into this string; "
            'it must satisfy this JSON Schema: {"type":"object"}'
        )
    ]
