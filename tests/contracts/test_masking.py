"""Secrets that are echoed: in which forms they are found, and what is left as it is."""

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerbus.masking import MASKED, NO_MASK, Mask, is_secret
from tests.cpu_time import cpu_time

KEY = 'sk-proj-Ab/9"x+Z_é-\\0123456789'
# Where a key begins with a letter of an escape, such a letter before it may be taken for its own.
keys = st.from_regex(r"(sk|AIza|gsk|xai)[-_][A-Za-z0-9_./+=-]{12,40}", fullmatch=True)
SECONDS_MAX = 4.0  # of a core, which others may be using too


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"Incorrect API key provided: {KEY}.",
        json.dumps({"a": KEY}),
        json.dumps({KEY: json.dumps([KEY, {"b": json.dumps(KEY)}])}),
        json.dumps(KEY, ensure_ascii=False).replace("/", "\\/"),
        "".join(f"\\u{ord(sign):04X}" for sign in KEY),
        quote(KEY),
        quote(quote(KEY, safe=""), safe=""),
        html.escape(KEY).replace("&quot;", "&#34;"),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
        f"{KEY[:-2]}…",
        KEY[:12],
    ],
)
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    masked = Mask([KEY])(text)

    assert MASKED in masked
    assert KEY[:12] not in masked
    assert KEY not in html.unescape(masked)


def test_a_secret_beyond_latin_1_is_found_in_numbers_of_html() -> None:
    key = "пароль-дня"
    written = "".join(f"&#{ord(sign)};" for sign in key)

    assert Mask([key])(f"key {written}.") == f"key {MASKED}."


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "x", "\n"])
def test_a_secret_is_found_inside_base64(before: str, after: str) -> None:
    for code in (base64.b64encode, base64.urlsafe_b64encode):
        message = code(f"{before}{KEY}{after}".encode()).decode()

        assert MASKED in Mask([KEY])(f"Basic {message}")


@settings(deadline=None)
@given(keys, st.text())
def test_json_stays_json_and_loses_nothing_else(key: str, text: str) -> None:
    mask = Mask([key])
    body = json.dumps({"a": f"{text} {key} {text}", "b": [1, None]})

    assert json.loads(mask(body))["b"] == [1, None]
    assert key not in mask(f"{text}{key}")


@pytest.mark.parametrize(
    "word",
    [
        "x",
        "none",
        "None",
        "ollama",
        "EMPTY",
        "lm-studio",
        "not-needed",
        "changeme",
        "password",
        "",
        None,
    ],
)
def test_a_word_that_is_no_secret_masks_nothing(word: str | None) -> None:
    assert not is_secret(word)
    text = f"none of these: {word}, ollama, and a password"
    assert Mask([word])(text) == text


@pytest.mark.parametrize(
    "key", ["hunter2hunter2", "sk-very-secret", "s3cr3t-k", "0123456789abcdef"]
)
def test_what_is_long_enough_is_one(key: str) -> None:
    assert Mask([key, "other-secret-1"])(f"<{key}>") == f"<{MASKED}>"


def test_of_two_the_longer_is_found_first() -> None:
    mask = Mask(["secret-of-acme", "secret-of-acme-and-more"])

    assert mask("secret-of-acme-and-more") == MASKED


@pytest.mark.wide
@pytest.mark.parametrize(
    "text",
    [
        "\\" * 500_000,
        "%25" * 200_000,
        f"{KEY[:-1]}\\" * 20_000,
        "&#0" * 200_000,
        "s" * 500_000 + "%",
        "S" * 500_000,
        "ab" * 250_000,
        " " * 500_000,
        "\n" * 500_000,
        KEY * 20_000,
        KEY[:7] * 70_000,
        base64.b64encode(base64.b64encode(b"sk-proj" * 40_000)).decode(),
    ],
)
def test_no_text_makes_the_search_slow(text: str) -> None:
    with cpu_time() as cpu:
        Mask([KEY] * 3)(text)

    assert cpu.is_below(SECONDS_MAX)


def test_without_secrets_nothing_changes() -> None:
    assert NO_MASK("sk-anything % \\") == "sk-anything % \\"
