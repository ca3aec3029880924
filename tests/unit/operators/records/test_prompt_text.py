"""A text is found in each part of a prompt, and garbage is no prompt."""

import json
from dataclasses import replace
from typing import Any

import pytest

from answerbus.envelope import decode
from answerbus.request import Request
from answerbus.request_key import RequestKey
from services.operators.records.prompt_text import AROUND_CHARS, PromptText, _parts
from tests.cost.budget import spent
from tests.unit.operators.stored_examples import NOON_MS, body_of, stored


@pytest.mark.parametrize(
    ("context", "part", "excerpt"),
    [
        ({"instructions": "Go to\n  Zanzibar."}, "instructions", "Go to Zanzibar."),
        (
            {"instructions": "x", "messages": [{"role": "user", "content": "zanzibar?"}]},
            "message 1",
            "zanzibar?",
        ),
        (
            {"instructions": "x", "facts": [{"name": "trip", "value": {"to": ["Zanzibar"]}}]},
            "fact trip",
            '{"to":["Zanzibar"]}',
        ),
    ],
)
def test_a_text_is_found_in_all_parts(context: dict[str, Any], part: str, excerpt: str) -> None:
    record = stored("request/minimal", request_id="r", workflow_id="w", context=context)
    match = PromptText("ZANZIBAR").match(record)

    assert match is not None
    assert (match.key, match.part, match.excerpt) == (RequestKey("w", "r"), part, excerpt)
    assert match.at_ms == NOON_MS
    assert PromptText("Atlantis").match(record) is None


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("https://shop", r"https:\/\/shop"), ("<b>", r"\u003cb\u003E"), ("naïve", r"na\u00efve")],
)
def test_a_text_is_found_however_its_writer_escaped_it(text: str, escaped: str) -> None:
    record = stored("request/minimal", context={"instructions": "@"})
    assert record.value is not None
    value = record.value.replace(b'"@"', f'"{escaped}"'.encode())

    match = PromptText(text).match(replace(record, value=value))
    assert match is not None
    assert match.excerpt == text


@pytest.mark.parametrize("text", ["4711, 4712", "4711,4712", "yes, é: well"])
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_a_fact_is_found_with_and_without_spaces(text: str, separators: tuple[str, str]) -> None:
    facts = [{"name": "orders", "value": [4711, 4712, "Yes, é: well"]}]
    body = body_of("request/minimal") | {"context": {"instructions": "x", "facts": facts}}
    value = json.dumps(body, ensure_ascii=False, separators=separators).encode()

    match = PromptText(text).match(replace(stored("request/minimal"), value=value))
    assert match is not None
    assert match.part == "fact orders"


def test_an_excerpt_is_short_and_a_dead_letter_is_known_by_its_request() -> None:
    asked = body_of("dead_letter/invalid_answer")["request"]
    asked["context"] = {"instructions": "a" * 500 + " Zanzibar " + "b" * 500}
    match = PromptText("zanzibar").match(stored("dead_letter/invalid_answer", request=asked))

    assert match is not None
    assert match.key == RequestKey(asked["workflow_id"], asked["request_id"])
    assert len(match.excerpt) <= 2 * AROUND_CHARS + len("…zanzibar…")


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xff", b"{}", b"[" * 100_000, b'{"request_id": 7}'],
)
def test_what_is_no_request_matches_nothing(value: bytes | None) -> None:
    assert PromptText("a").match(replace(stored("request/minimal"), value=value)) is None


def test_a_fact_of_many_numbers_is_written_in_less_time_than_it_is_decoded() -> None:
    """A fifth of it; Python's own encoder takes a quarter more than it."""
    context = {"instructions": "x", "facts": [{"name": "f", "value": [1.2345e-7] * 17_000}]}
    value = stored("request/minimal", context=context).value or b""
    asked = decode(value)
    assert isinstance(asked, Request)

    rounds = [
        (spent(lambda: decode(value)).spent_s, spent(lambda: list(_parts(asked.context))).spent_s)
        for _ in range(3)
    ]
    decoding, writing = (min(of_all) for of_all in zip(*rounds, strict=True))
    assert writing < decoding / 2
