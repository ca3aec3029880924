"""The dialect `plain`: types, members and choices are sent, each rule of a value is noted."""

from typing import Any

import pytest

from tests.unit.worker.dialects.compiling import closed, sent, wire

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
LIST: dict[str, Any] = {"type": "array", "items": TEXT}


@pytest.mark.parametrize(
    ("rule", "keyword"),
    [
        (TEXT | {"pattern": "^[a-z]+$"}, "pattern"),
        (TEXT | {"format": "date"}, "format"),
        (TEXT | {"minLength": 2}, "minLength"),
        (NUMBER | {"minimum": 1}, "minimum"),
        (NUMBER | {"multipleOf": 2}, "multipleOf"),
        (LIST | {"minItems": 1}, "minItems"),
        (LIST | {"maxItems": 3}, "maxItems"),
    ],
)
def test_a_rule_of_a_value_is_noted_and_not_sent(rule: dict[str, Any], keyword: str) -> None:
    made = wire("plain", closed({"v": rule}, "v"))

    assert [note.split("`")[1] for note in made.notes] == [keyword]
    assert keyword not in made.text


def test_the_form_is_that_of_openai() -> None:
    variants = [closed({"kind": {"const": name}, "v": TEXT}, "kind") for name in ("a", "b")]
    schema = closed({"one": {"anyOf": variants}, "many": LIST}, "one")

    assert sent("plain", schema) == sent("openai", schema)
