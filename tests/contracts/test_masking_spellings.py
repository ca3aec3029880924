"""For each spelling of a key in an echo: no eight characters of it stay readable."""

import base64
import json
import quopri
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from html import escape, unescape
from html.entities import codepoint2name
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from answerbus.masking import MASKED, RUN_CHARS, Mask, is_secret

pytestmark = pytest.mark.wide  # many cases, each of them long

_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
keys = st.one_of(
    st.from_regex(
        r"(sk|AIza|gsk|xai|sk-proj|sk-ant-api03)[-_][A-Za-z0-9_./+=-]{6,60}", fullmatch=True
    ),
    st.text(_SIGNS + "-_./+=~!$%&'\"<>\\", min_size=2 * RUN_CHARS, max_size=60),
    st.text(_SIGNS + "-_", min_size=RUN_CHARS, max_size=20),
    st.text("0123456789abcdef", min_size=32, max_size=32),
).filter(lambda key: is_secret(key) and len({*key.lower()}) > 2)
around = st.sampled_from(["", "x", "ab", "user:", 'key="', "Bearer ", "…", "\n", "=", "{", "é "])

Spelling = Callable[[str], str]


def named(text: str) -> str:
    """With names of HTML where there are any, numbers elsewhere."""
    more = {".": "&period;", "-": "&#45;", "_": "&lowbar;", "+": "&plus;", "/": "&sol;"}
    return "".join(
        more.get(sign)
        or (f"&{codepoint2name[ord(sign)]};" if ord(sign) in codepoint2name else sign)
        for sign in text
    )


def wrapped(text: str, width: int, line_end: str) -> str:
    return line_end.join(text[at : at + width] for at in range(0, len(text), width))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def numbers(text: str, form: str, between: str) -> str:
    return f"[{between.join(form.format(sign) for sign in text.encode())}]"


SPELLINGS: dict[str, Spelling] = {
    "as it is": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "title": str.title,
    "cut off at the end": lambda key: key[: max(RUN_CHARS, len(key) // 2)] + "…",
    "cut off with dots and a quote": lambda key: f'"{key[: max(RUN_CHARS, len(key) - 4)]}..."',
    "cut off at the beginning": lambda key: "…" + key[-max(RUN_CHARS, len(key) // 2) :],
    "its middle": lambda key: f"**{key[len(key) // 2 - 4 : len(key) // 2 + 4]}**",
    "a quote": repr,
    "JSON": json.dumps,
    "JSON in JSON": lambda key: json.dumps(json.dumps({"a": key})),
    "JSON in JSON in JSON": lambda key: json.dumps(json.dumps(json.dumps([key]))),
    "JSON, all escaped": lambda key: "".join(f"\\u{ord(sign):04x}" for sign in key),
    "JSON, the first escaped": lambda key: f"\\u{ord(key[0]):04X}{key[1:]}",
    "JSON, escaped twice": lambda key: "".join(f"\\\\u{ord(sign):04x}" for sign in key),
    "a slash escaped": lambda key: json.dumps(key).replace("/", "\\/"),
    "bytes of Python": lambda key: "".join(f"\\x{ord(sign):02x}" for sign in key),
    "URL": lambda key: quote(key, safe=""),
    "URL, all of it": lambda key: "".join(f"%{ord(sign):02X}" for sign in key),
    "URL, twice": lambda key: quote(quote(key, safe=""), safe=""),
    "HTML": escape,
    "HTML, names": named,
    "HTML, numbers": lambda key: "".join(f"&#{ord(sign)};" for sign in key),
    "HTML, hexadecimal": lambda key: "".join(f"&#x{ord(sign):X};" for sign in key),
    "HTML, twice": lambda key: escape(named(key)),
    "Base64": b64,
    "Base64 without padding": lambda key: b64(key).rstrip("="),
    "Base64 of more": lambda key: f"Basic {b64(f'user:{key}')}",
    "Base64 of yet more": lambda key: b64(json.dumps({"key": key, "a": [1]})),
    "Base64 with lines": lambda key: wrapped(b64(key), 16, "\n"),
    "Base64 with lines of mail": lambda key: wrapped(b64(f"ab{key}"), 20, "\r\n "),
    "Base64 with lines in JSON": lambda key: json.dumps(wrapped(b64(key), 16, "\n")),
    "Base64 for URLs": lambda key: base64.urlsafe_b64encode(f"ÿþ?{key}".encode()).decode(),
    "Base64 in a URL": lambda key: quote(b64(key), safe=""),
    "Base64 of upper case": lambda key: b64(key.upper()),
    "Base64 of Base64": lambda key: b64(b64(key)),
    "Base64 of UTF-16": lambda key: base64.b64encode(key.encode("utf-16-le")).decode(),
    "Base64, cut off": lambda key: b64(key + "more")[:-3] + "...",
    "Base32": lambda key: base64.b32encode(key.encode()).decode(),
    "Base32 of more": lambda key: base64.b32encode(f"key={key};".encode()).decode().lower(),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal in capitals": lambda key: f"0{key.encode().hex().upper()}",
    "hexadecimal with colons": lambda key: f" {key.encode().hex(':')} ",
    "hexadecimal with dashes": lambda key: f"({key.encode().hex('-').upper()})",
    "hexadecimal with spaces": lambda key: f" {key.encode().hex(' ')}\n",
    "hexadecimal in groups": lambda key: f" {wrapped(key.encode().hex(), 4, ' ')} ",
    "hexadecimal of a program": lambda key: numbers(key, "0x{:02x}", ", "),
    "hexadecimal in a JSON list": lambda key: json.dumps([f"{sign:02x}" for sign in key.encode()]),
    "code points": lambda key: numbers(key, "U+{:04X}", " "),
    "decimal in a list": lambda key: str([*key.encode()]),
    "decimal with spaces": lambda key: numbers(key, "{}", " "),
    "decimal on lines in JSON": lambda key: json.dumps(numbers(key, "{}", "\n")),
    "decimal in calls": lambda key: numbers(key, "chr({})", " + "),
    "octal of a program": lambda key: numbers(key, "0o{:o}", ", "),
    "octal with spaces": lambda key: numbers(key, "{:03o}", " "),
    "octal escapes": lambda key: "".join(f"\\{sign:03o}" for sign in key.encode()),
    "octal escapes of signs": lambda key: re.sub(
        "[^a-z]", lambda sign: f"\\{ord(sign[0]):03o}", key
    ),
    "quoted-printable": lambda key: quopri.encodestring(key.encode(), quotetabs=True).decode(),
    "quoted-printable, all of it": lambda key: "".join(f"={sign:02X}" for sign in key.encode()),
    "quoted-printable, wrapped": lambda key: wrapped(key, 5, "=\r\n"),
    "full-width letters": lambda key: "".join(chr(ord(sign) + 0xFEE0) for sign in key),
    "full-width first letter": lambda key: chr(ord(key[0]) + 0xFEE0) + key[1:],
    "with a line's end": lambda key: wrapped(key, 10, "\n"),
    "with signs nobody sees": "\u200b".join,
}


def _decoders() -> Iterator[Callable[[str], str]]:
    """What a reader could do to what was kept, each by a library of its own."""
    yield str
    yield lambda text: re.sub(r"[\r\n]\s*", "", text).replace("\u200b", "").replace("\0", "")
    yield lambda text: re.sub(r"\\u([\da-fA-F]{4})", lambda one: chr(int(one[1], 16)), text)
    yield lambda text: re.sub(r"\\x([\da-fA-F]{2})", lambda one: chr(int(one[1], 16)), text)
    yield lambda text: re.sub(r"\\(.)", r"\1", text)
    yield lambda text: unquote_to_bytes(text).decode("latin-1")
    yield unescape
    yield lambda text: quopri.decodestring(text.encode()).decode("latin-1")
    yield lambda text: re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8) % 256), text)
    yield lambda text: unicodedata.normalize("NFKC", text)
    for base, digits in ((16, r"[\da-fA-F]{2}"), (10, r"\d{2,3}"), (8, "[0-7]{2,3}")):
        yield partial(_listed, digits, base)
    for skipped in range(8):
        yield partial(_coded, r"[A-Za-z0-9+/_-]+", _from64, skipped)
        yield partial(_coded, r"[A-Za-z2-7]+", _from32, skipped)
        yield partial(_coded, r"[0-9a-fA-F]+", _from16, skipped)


def _listed(digits: str, base: int, text: str) -> str:
    return "".join(
        chr(int(one, base) % 256) for one in re.findall(rf"\b(?:0[xo])?({digits})\b", text)
    )


def _coded(run: str, read: Callable[[str], bytes], skipped: int, text: str) -> str:
    return " ".join(read(one[0][skipped:]).decode("latin-1") for one in re.finditer(run, text))


def _from64(code: str) -> bytes:
    return base64.urlsafe_b64decode(
        code.translate(str.maketrans("+/", "-_")) + -len(code) % 4 * "A"
    )


def _from32(code: str) -> bytes:
    return base64.b32decode(code.upper() + -len(code) % 8 * "A")


def _from16(code: str) -> bytes:
    return bytes.fromhex(code[: len(code) // 2 * 2])


DECODERS = list(_decoders())


def readable(kept: str, key: str) -> list[str]:
    """Which runs of the key can be read in a text, by one or two steps."""
    small = key.lower()
    runs = {small[at : at + RUN_CHARS] for at in range(len(key) - RUN_CHARS + 1)}
    once = [decode(kept) for decode in DECODERS]
    twice = [decode(text) for text in {*once[:7]} for decode in DECODERS]
    return [run for text in {*once, *twice} for run in runs if run in text.lower()]


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@settings(deadline=None, max_examples=40)
@given(key=keys, before=around, after=around)
def test_no_run_of_a_key_is_readable(spelling: Spelling, key: str, before: str, after: str) -> None:
    kept = Mask([key, "another-secret-4711"])(f"{before}{spelling(key)}{after}")

    assert MASKED in kept
    assert readable(kept, key) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("00000012", "=00000=\r\n012"),
        ("k-=41abc", "\uff4b-=41abc"),
        ("k\\0-=41a", "k\\0-=\n=41a"),
    ],
    ids=["wrapped after a sign of a byte", "wide before one", "an octal escape, wrapped"],
)
def test_a_key_that_looks_like_another_escape_is_masked(key: str, text: str) -> None:
    """A reader who undoes one kind of escape alone would see the key."""
    kept = Mask([key])(text)

    assert MASKED in kept
    assert readable(kept, key) == []


@settings(deadline=None)
@given(keys, st.text(), st.sampled_from([*SPELLINGS.values()]))
def test_a_text_that_holds_no_run_stays_as_it_is(key: str, text: str, spelling: Spelling) -> None:
    """Nor does one that holds all but the last of a run, however it is spelled."""
    message = f"{text} {spelling('harmless words')} {key[: RUN_CHARS - 1]} {text}"
    assume(not readable(message, key))

    assert Mask([key])(message) == message


@settings(deadline=None)
@given(keys, st.recursive(st.none() | st.text() | st.integers(0, 999), st.lists), st.booleans())
def test_json_stays_json(key: str, value: object, in_ascii: bool) -> None:
    body = json.dumps({"a": value, key: [f"\n{key}", key], "b": 1}, ensure_ascii=in_ascii)

    kept = json.loads(Mask([key])(body))

    assert kept["b"] == 1
    assert readable(json.dumps(kept, ensure_ascii=False), key) == []


ORDINARY = (
    "On 2026-11-25 at 16:48:00, 12 of 345 orders were sent to 10.0.0.1; the rest on 2026-11-26.",
    json.dumps({"embedding": [0.115, 0.107, 0.45, 0.108], "counts": [*range(40, 140)]}),
    "00:1b:44:11:3a:b7 and 550e8400-e29b-41d4-a716-446655440000, color: #73a2bf; x=10; y=20",
    "a=1&b=22&c=33==\n\\1 \\12 and \uff41\uff42\uff43\uff44 \uff46\uff55\uff4c\uff4c",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_numbers_and_wide_letters_of_ordinary_texts_stay(text: str) -> None:
    assert Mask(["sk-proj-9d2kfa81hx0c", "wednesday-4711"])(text) == text
