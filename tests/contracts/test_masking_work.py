"""What it costs to look for keys: texts that are large, that are hostile, and that are ordinary."""

import base64
import json
import random
import uuid
from collections.abc import Callable

import pytest

from answerbus.limits import ANSWER_BYTES_MAX, KIB
from answerbus.masking import MASKED, Mask
from tests.cpu_time import cpu_time

pytestmark = pytest.mark.wide  # many cases, each of them long

_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
KEYS = ["sk-proj-" + "".join(random.Random(seed).choices(_SIGNS, k=40)) for seed in range(5)]
KEY = KEYS[3]
# Of a core, which others may be using too: a free one needs a third of it.
SECONDS_PER_100_KB_MAX = 0.3
MASK = Mask(KEYS)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def escaped(text: str, every: int = 60) -> str:
    """With an escape of five levels at each so many characters."""
    return "".join(
        f"%25252525{ord(sign):02x}" if at % every == 0 else sign for at, sign in enumerate(text)
    )


def hexadecimal(size: int) -> str:
    """Signs of each code at once."""
    return "".join(random.Random(1).choices("abcdef234567", k=size))


def codes(size: int) -> str:
    return "%252525252541".join([hexadecimal(59)] * (size // 70))


HOSTILE: dict[str, Callable[[int], str]] = {
    "a code of codes, all escaped": lambda size: escaped(b64(codes(size))),
    "a code in a code, all escaped": lambda size: escaped(b64(escaped(b64(codes(size))))),
    "signs of every code, escaped": lambda size: escaped(hexadecimal(size)),
    "signs of every code": hexadecimal,
    "nothing, coded": lambda size: "A" * size,
    "nothing, coded twice": lambda size: b64("A" * size),
    "almost a key": lambda size: KEY[:7] * size,
    "words of a key": lambda size: " ".join(KEY[at : at + 4] for at in range(40)) * size,
    "almost a key, escaped": lambda size: escaped(KEY[:7] * (size // 7), 9),
    "a key, escaped": lambda size: escaped(f"{KEY} " * (size // 50), 9),
    "runs of a key": lambda size: f"{KEY[:8]} " * size,
    "runs of a key in escapes": lambda size: f"{KEY[:8]}%25252525" * size,
    "runs of a key, coded": lambda size: f"{KEY[:9].encode().hex()} " * size,
    "escapes": lambda size: "\\" * size,
    "escapes of each kind": lambda size: "".join(
        random.Random(1).choices(["%25", "\\", "&amp;", "abcdef2345672222", "\n"], k=size)
    ),
    "names": lambda size: "&amp;" * size,
    "different escapes": lambda size: "".join(f"&#{at};" for at in range(10**8, 10**8 + size)),
    "what nobody sees": lambda size: "\0\n" * size,
    "numbers": lambda size: "115, " * size,
    "numbers of all bases": lambda size: "".join(
        random.Random(1).choices(["73 ", "163,", "0x6b ", "107\n", "\\055", "=2D"], k=size)
    ),
    "numbers of a key": lambda size: " ".join(map(str, KEY[:9].encode())) * size,
    "different numbers": lambda size: " ".join(map(str, range(10**6, 10**6 + size // 8))),
    "octal": lambda size: "\\101" * size,
    "quoted-printable": lambda size: "=41" * size,
    "full width": lambda size: "\uff53\uff4b" * size,
    "wide letters": lambda size: "\u6a21" * size,
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_long(hostile: Callable[[int], str]) -> None:
    text = hostile(ANSWER_BYTES_MAX)[:ANSWER_BYTES_MAX]

    with cpu_time() as cpu:
        MASK(text)

    assert cpu.is_below(SECONDS_PER_100_KB_MAX * len(text) / 100_000)


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_key_in_a_text_that_takes_much_work_is_not_left(hostile: Callable[[int], str]) -> None:
    message = f"{hostile(64 * KIB)[: 64 * KIB]} {KEY} {b64(KEY)}"

    kept = MASK(message)

    assert MASKED in kept
    assert KEY not in kept
    assert b64(KEY)[:20] not in kept


def records() -> str:
    sources = random.Random(2)
    return json.dumps(
        [
            {
                "id": str(uuid.UUID(int=sources.getrandbits(128))),
                "text": 'The "brown" fox\njumps über it: https://example.com/a/b?x=%20y&amp;z',
            }
            for _ in range(700)
        ]
    )


def image(size: int) -> bytes:
    return random.Random(4).randbytes(size)


def mail(raw: bytes) -> str:
    return base64.encodebytes(raw).decode()


ORDINARY: dict[str, Callable[[], str]] = {
    "records": records,
    "records as JSON text": lambda: json.dumps({"answer": records()}),
    "records as JSON text in JSON text": lambda: json.dumps(json.dumps({"answer": records()})),
    "records in Base64": lambda: b64(records()),
    "records in Base64 of a mail": lambda: json.dumps(mail(records().encode())),
    "records in Base64 of Base64": lambda: b64(b64(records())),
    "records in Base32": lambda: base64.b32encode(records().encode()).decode(),
    "records in hexadecimal": lambda: records().encode().hex(),
    "an image": lambda: base64.b64encode(image(180 * KIB)).decode(),
    "an image of a mail": lambda: json.dumps({"image": mail(image(180 * KIB))}),
    "an image of a mail, quoted twice": lambda: json.dumps(json.dumps(mail(image(180 * KIB)))),
    "hexadecimal bytes": lambda: image(120 * KIB).hex(),
    "Chinese": lambda: json.dumps("模型的回答是很长的" * 4_000),
    "Chinese, not escaped": lambda: "模型的回答是很长的\n" * 8_000,
}


@pytest.mark.parametrize("ordinary", ORDINARY.values(), ids=ORDINARY)
def test_a_large_answer_is_kept_and_does_not_take_long(ordinary: Callable[[], str]) -> None:
    text = ordinary()
    with cpu_time() as cpu:
        masked = MASK(text)

    assert masked == text
    assert cpu.is_below(SECONDS_PER_100_KB_MAX * len(text) / 100_000)


@pytest.mark.parametrize("ordinary", ORDINARY.values(), ids=ORDINARY)
@pytest.mark.parametrize("spelled", [str, b64, lambda key: key.encode().hex()])
def test_of_a_large_answer_the_key_alone_is_masked(
    ordinary: Callable[[], str], spelled: Callable[[str], str]
) -> None:
    text = ordinary()
    half = len(text) // 2

    # A letter before the key is one of the text, or of an escape in it.
    kept = MASK(f"{text[:half]} {spelled(KEY)} {text[half:]}")

    assert KEY[:8] not in kept
    assert spelled(KEY)[4:16] not in kept
    assert abs(len(kept) - len(text) - len(f" {MASKED} ")) < 8


def test_a_key_inside_of_a_large_code_is_masked() -> None:
    """Bytes that are no text surround it, at each place in a group of bytes."""
    for before in range(6):
        raw = image(60_000 + before) + KEY.encode() + image(60_000)
        kept = MASK(base64.b64encode(raw).decode())

        first, masked, last = kept.partition(MASKED)
        assert masked
        assert MASKED not in last
        # A sign on each side of it says bits of the key and of what is beside it.
        assert 0 <= 60_000 + before - len(first) * 6 // 8 < 3
        assert 0 <= 60_000 - len(last.rstrip("=")) * 6 // 8 < 3


def test_a_key_beyond_ascii_is_found_among_bytes() -> None:
    key = "pässwörd-é-über-größe"
    raw = image(6_000) + key.encode() + image(6_000)

    for code in (base64.b64encode, base64.b32encode, base64.b16encode):
        assert MASKED in Mask([key])(code(raw).decode())
        assert MASKED in Mask([key])(code(image(600) + key.encode("latin-1")).decode())


def test_an_escape_in_the_midst_of_a_code_is_read() -> None:
    """What was decoded before an escape was taken back is decoded again where it changed."""
    code = b64("x" * 300 + KEY + "y" * 300)
    for at in range(400, 460):
        for sign, replaced in (
            *((wrap, 0) for wrap in ("\\n", "\\\\n", "%0A", "%250A")),
            (f"%{ord(code[at]):02X}", 1),
        ):
            reported = code[:at] + sign + code[at + replaced :]
            kept = MASK(f"{code[:200]} {reported} {reported}")
            assert kept.count(MASKED) == 2, (at, sign)
            assert len(kept) < len(reported) * 2 + 202 - 2 * 40
