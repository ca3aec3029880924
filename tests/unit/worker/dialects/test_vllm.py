"""The dialect `vllm`: what one of its two engines does not enforce is left out and noted."""

from typing import Any

import pytest

from services.worker.dialects.compiler.patterns import FORMAT_PATTERNS
from services.worker.dialects.vllm import REPEATS_MAX
from tests.unit.worker.dialects.compiling import closed, sent, wire

TEXT: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, {"type": ["array", "boolean", "null", "number", "object", "string"]}),
        ({"type": "integer", "exclusiveMinimum": 9}, {"type": "integer", "minimum": 10}),
        (
            {"type": "number", "minimum": 0.5, "exclusiveMaximum": 3},
            {"type": "number", "minimum": 0.5, "exclusiveMaximum": 3},
        ),
        (TEXT | {"pattern": r"^\d(x|yz+)?$"}, TEXT | {"pattern": "^[0-9](x|yz+){0,1}$"}),
        (TEXT | {"format": "date"}, TEXT | {"pattern": FORMAT_PATTERNS["date"]}),
        (TEXT | {"format": "uuid"}, TEXT | {"format": "uuid"}),
    ],
)
def test_what_is_sent(schema: Any, expected: Any) -> None:
    assert sent("vllm", schema) == expected
    assert wire("vllm", schema).notes == ()


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        (TEXT | {"minLength": 1}, "minLength"),
        (TEXT | {"pattern": "^[a]+$", "maxLength": 3}, "maxLength"),
        (TEXT | {"pattern": f"^a{{{REPEATS_MAX + 1}}}$"}, "pattern"),
        (TEXT | {"format": "email"}, "format"),
        ({"type": "integer", "multipleOf": 5}, "multipleOf"),
        ({"type": "array", "items": {}, "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "patternProperties": {"^x": TEXT}}, "patternProperties"),
    ],
)
def test_each_rule_that_is_not_enforced_is_noted(rule: Any, note: str) -> None:
    made = wire("vllm", closed({"v": rule}, "v"))

    assert [text.split("`")[1] for text in made.notes] == [note]
    assert note not in made.text


def test_a_model_is_shown_the_name_of_a_format() -> None:
    assert wire("vllm", TEXT | {"format": "time"}).shown == TEXT | {"format": "time"}
