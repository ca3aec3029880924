"""Digests are the same for every spelling of a value, and never raise."""

import hashlib
import json
from functools import partial

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from answerbus import canonical_json, json_text
from answerbus.wire import bytes_digest
from services.text.digest import (
    canonical,
    canonical_digest,
    canonical_members,
    members_digest,
    text_digest,
)
from tests.cost.budget import spent

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def has_large_integers(value: JsonValue) -> bool:
    match value:
        case int():
            return abs(value) >= 2**53
        case list():
            return any(map(has_large_integers, value))
        case dict():
            return any(map(has_large_integers, value.values()))
        case _:
            return False


def sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
        ([1.0, 1e21, 1e-7, -0.0, 333333333.3333333], "[1,1e+21,1e-7,0,333333333.3333333]"),
        ('a\u0001\n"\\é', '"a\\u0001\\n\\"\\\\é"'),
        (2**53 - 1, "9007199254740991"),
        (2**53, '"9007199254740992"'),
        ([-(10**30)], '["-1000000000000000000000000000000"]'),
    ],
)
def test_the_digest_is_that_of_the_canonical_text(value: JsonValue, canonical: str) -> None:
    assert canonical_digest(value) == sha256(canonical)


@pytest.mark.wide
@given(VALUES.filter(lambda value: not has_large_integers(value)))
def test_the_text_is_that_of_rfc_8785(value: JsonValue) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("digits", [1.0, 1.5, 1.2345678901234567, 9.999999999999999])
def test_each_size_of_a_number_is_written_as_rfc_8785_does(digits: float, sign: int) -> None:
    for exponent in (*range(-12, 25), -324, -300, 300, 307):
        value = sign * float(f"{digits!r}e{exponent}")
        kept: JsonValue = {"\U0001f600": [value], "\ufb33": {"b": value, "a": [[value], "1.0"]}}
        if abs(value) < 2**53 or abs(value) > 1e16:  # between, exact ones are integers to it
            assert canonical(kept) == rfc8785.dumps(kept)


def test_a_number_in_another_form_takes_little_more_than_others() -> None:
    """It takes three times as long; by Python's repr it would take fourteen times."""
    works = [partial(canonical, [number] * 17_900) for number in (0.5, -9.123456789012345e300)]
    rounds = [[spent(work).spent_s for work in works] for _ in range(5)]
    common, other = (min(of_all) for of_all in zip(*rounds, strict=True))
    assert other < 7 * common


def test_each_character_is_written_as_rfc_8785_does() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x11000)):
        assert canonical([chr(code)]) == rfc8785.dumps([chr(code)])


@pytest.mark.wide
@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), VALUES, max_size=5))
def test_an_object_has_the_digest_of_its_members(value: dict[str, JsonValue]) -> None:
    assert members_digest(canonical_members(value)) == canonical_digest(value)


@pytest.mark.wide
@given(VALUES)
def test_spelling_does_not_matter(value: JsonValue) -> None:
    spelt = json_text.parse(json.dumps(value, indent=1, sort_keys=True).encode())

    assert isinstance(spelt, json_text.Parsed)
    assert canonical_digest(spelt.value) == canonical_digest(value)


@pytest.mark.parametrize("text", ["9" * 4300, "-" + "1" * 4299, "1e308", "[" * 199 + "]" * 199])
def test_nothing_that_parses_is_too_much(text: str) -> None:
    parsed = json_text.parse(text.encode())

    assert isinstance(parsed, json_text.Parsed)
    assert canonical_digest(parsed.value).startswith("sha256:")


def test_texts_and_bytes_are_digested_as_they_are() -> None:
    assert text_digest("é") == bytes_digest("é".encode()) == sha256("é")
    assert text_digest("\ud800") == bytes_digest(b"\xed\xa0\x80")


@given(VALUES)
def test_clients_find_the_same_digest(value: JsonValue) -> None:
    assert canonical_json.canonical_digest(value) == canonical_digest(value)
