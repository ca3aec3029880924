"""A text without spaces is compared with what would be written, and then read once."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from answerbus import json_text
from answerbus.json_text import NotJson, Parsed, parse

VALUES: list[JsonValue] = [
    {"a": [1, {"b": None}], "": "é 😀", "c": True},
    {"text": 'a "name": 1, \\ and \u2028'},
    [0, -1, 2**70, 1.5, 0.1, 1e22, 5e-324, -0.0],
]
NOT_JSON = [
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":1}',
    '[{"a":{"b":[],"b":[]}}]',
    '{"a":1,"b":2,"a":3}',
    '{"a":1e400}',
    '{"a":1e-400}',
    '{"a":NaN}',
]


def not_called(text: str) -> None:
    raise AssertionError(f"{text} was read twice")


@pytest.mark.parametrize("value", VALUES)
def test_spaces_and_escapes_change_nothing(value: JsonValue) -> None:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    others = (
        json.dumps(value),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, indent=1),
    )

    assert [parse(text.encode()) for text in (compact, *others)] == 4 * [Parsed(value)]


@given(st.text("\n \r\té", max_size=400), st.integers(1, 400))
def test_a_fault_is_at_its_byte_however_many_lines_precede_it(space: str, times: int) -> None:
    valid = "".join(sign for sign in space if sign != "é").encode() * times

    found = parse(valid + b"x")
    assert isinstance(found, NotJson)
    assert found.position == len(valid)


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_refused_is_refused_without_spaces_too(text: str) -> None:
    spaced = text.replace(":", ": ").replace(",", ", ")

    assert isinstance(parse(text.encode()), NotJson)
    assert isinstance(parse(spaced.encode()), NotJson)


def test_a_text_that_would_be_written_like_this_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_text, "_STANDARD", SimpleNamespace(decode=not_called))

    assert parse(b'{"a":[1,"\xc3\xa9"]}') == Parsed({"a": [1, "é"]})
    with pytest.raises(AssertionError):
        parse(b'{"a":1,"a":1}')


@pytest.mark.parametrize("text", [b"", b" \n\t"])
def test_a_text_without_anything_is_said_to_be_empty(text: bytes) -> None:
    assert parse(text) == NotJson("one JSON document: the text is empty", 0, text.decode())
