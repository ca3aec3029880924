"""Patterns as grammars have them: the same texts match, and JSON writes each of them as it is."""

import re
from datetime import date

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.worker.dialects.compiler.patterns import FORMAT_PATTERNS, spelled_out


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^$", "^$"),
        (r"^\d{3}-\w+$", "^[0-9]{3}-[0-9A-Za-z_]+$"),
        (r"^[\w.-]+@[a-z]+\.(com|org)$", r"^[0-9A-Za-z._-]+@[a-z]+\.(com|org)$"),
        ("^(?:a|b)?c*$", "^(a|b){0,1}c*$"),
        (r"^[A-Z]{2,3}\/\-x{2,}$", "^[A-Z]{2,3}/-x{2,}$"),
        (r"^[\]\[^-]$", r"^[\[\]^-]$"),
        (r"^[a\-z]$", "^[az-]$"),
        (r"^[\.-1]$", "^[./01]$"),
        (r"^[+-\.]$", "^[+,.-]$"),
        (r"^[\^-a]$", "^[_`a^]$"),
        (r"^\^\$$", r"^\^\$$"),
    ],
)
def test_what_a_grammar_can_say_is_spelled_out(pattern: str, expected: str) -> None:
    assert spelled_out(pattern) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        *("ab", "^ab", "ab$", "^a|b$", "^(a|)$", "^(|a)$", "^()$", "^(a$", "^a)$"),  # no end
        *("^a+?$", "^a**$", "^*$", "^(*a)$", "^x{0}$", "^x{1001}$", "^x{,3}$", "^{$"),  # counts
        *("^.$", "^[^a]$", r"^\s$", r"^[\s]$", r"^\b$", r"^\1$", r"^\D$"),  # of other characters
        *("^(?=a)b$", "^(?<n>a)$", "^(?i)a$"),
        *("^ü$", "^[ü]$", '^"$', r"^\"$", r"^\\$", r"^[\\]$", "^[!-/]$", "^[z-a-]$", "^\x01$"),
        *(
            "^[-^]$",
            "^[]$",
            "^[a$",
            r"^[a-\d]$",
            r"^[\w-.]$",
            r"^\<a$",
            r"^[\[-a]$",
            "^[ -\U0010ffff]$",
        ),
    ],
)
def test_all_else_is_left_out(pattern: str) -> None:
    assert spelled_out(pattern) is None


PIECES = st.sampled_from(
    [
        *(r"\d", r"\w", "a", "-", r"\.", "[a-f]", r"[\d_]", r"[.\]-]", "(a|b)", "(?:ab|c-)"),
        *(r"\/", " ", r"[\.-9]", r"[+-\.]", "[#-,]", r"[\]-a]", "[--/]"),
    ]
)
COUNTS = st.sampled_from(["", "?", "*", "+", "{2}", "{1,3}", "{2,}"])


@pytest.mark.wide
@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(PIECES, COUNTS), max_size=4), st.data())
def test_the_same_texts_match(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    pattern = f"^{''.join(piece + count for piece, count in pieces)}$"
    spelled = spelled_out(pattern)
    assert spelled is not None
    text = data.draw(st.from_regex(spelled, fullmatch=True) | st.text("abc09_-./] é", max_size=6))

    assert bool(re.fullmatch(pattern, text, re.ASCII)) == bool(re.fullmatch(spelled, text))
    assert spelled_out(spelled) == spelled


@pytest.mark.wide
@pytest.mark.parametrize("name", FORMAT_PATTERNS)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.data())
def test_what_matches_a_format_is_of_that_format(name: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(FORMAT_PATTERNS[name], fullmatch=True))
    schema = {"type": "string", "format": name}

    assert jsonschema_rs.is_valid(schema, text, validate_formats=True)
    assert spelled_out(FORMAT_PATTERNS[name]) == FORMAT_PATTERNS[name]


@given(st.dates())
def test_every_day_is_a_date(day: date) -> None:
    assert re.fullmatch(FORMAT_PATTERNS["date"], day.isoformat())


@pytest.mark.parametrize("text", ["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01"])
def test_what_is_no_day_is_no_date(text: str) -> None:
    assert not re.fullmatch(FORMAT_PATTERNS["date"], text)
