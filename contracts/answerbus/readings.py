"""All readings of a text: as it is, unescaped, unwrapped, decoded from Base64, numbers and others.

Each reading knows where in the text each of its characters comes from, and what work it took.
"""

import base64
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html.entities import html5
from itertools import accumulate

from answerbus.spans import Joined, Places, Rewritten, TextSpan, through

# A text that was escaped more often than this, or coded again within a code within a code, is
# read no further, so that the work has an end.
ESCAPED_TIMES_MAX = 5
CODED_TIMES_MAX = 2
# What a character costs that is unescaped and looked for codes, or decoded, and not only compared.
_UNESCAPED_WORK, _DECODED_WORK = 4, 4
# What was no code is decoded to bytes with few characters of text in a row:
# these alone are read further, with some that are around them.
_TEXT = b"\0\t\n\r" + bytes(range(0x20, 0x7F))
_TEXT_RUN = 8 * b"\1"
_AROUND_CHARS = 32
BETWEEN = 8 * "\xa4"  # no sign of a code, an escape or a wrap
# Where a line was wrapped, and signs that are not visible.
_HIDDEN = r"\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff"
# One set of characters comes first, since this is searched for many times as fast.
UNSEEN = re.compile(rf"([\r\n{_HIDDEN}](?:(?<=[\r\n])\s*|[{_HIDDEN}]*))")
ESCAPE = re.compile(
    r"(\\(?:u(?:[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[\da-fA-F]{4})"
    r"|x[\da-fA-F]{2}|[^ux%&])"
    r"|%[\da-fA-F]{2}"
    r"|&(?:#\d{1,9};?|#[xX][\da-fA-F]{1,8};?|[A-Za-z][A-Za-z\d]{1,31};))",
    re.DOTALL | re.ASCII,
)
# Of quoted-printable (its soft ends of lines alone, too), octal escapes, and full-width letters:
# these are undone apart from the others and from one another, since `=` and `\\1` are in many
# texts, and in keys, that mean something else.
RARE_ESCAPES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"(=(?:[\dA-Fa-f]{2}|[ \t]{0,8}\r?\n))",
        r"(=[ \t]{0,8}\r?\n)",
        r"(\\[0-3]?[0-7]{1,2})",
        r"([\uff01-\uff5e])",
    )
)
_WIDE = 0xFEE0  # from a sign to the same in full width
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CODE_POINT_MAX = 0x10FFFF


def unescaped_once(escape: str) -> str:
    """One escape of JSON, of a URL (a byte, as Latin-1) or of HTML; itself if it means nothing."""
    match escape[0], escape[1]:
        case "%", _:
            return chr(int(escape[1:], 16))
        case "\\", "u" if len(escape) == 2 * len(r"\u0000"):  # two halves of one character
            units = bytes.fromhex(escape[2:6] + escape[8:])
            return units.decode("utf-16-be")
        case "\\", "u" | "x":
            return chr(int(escape[2:], 16))
        case "\\", sign:
            return _SHORT.get(sign, sign)
        case "&", "#":
            digits = escape[2:].rstrip(";")
            code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
            return chr(code) if code <= _CODE_POINT_MAX else escape
        case _:
            return html5.get(escape[1:], escape)


def rarely_unescaped_once(escape: str) -> str:
    """A byte of quoted-printable (nothing for its soft end of a line) or octal, or a wide sign."""
    match escape[0]:
        case "=":
            digits = escape[1:].strip()
            return chr(int(digits, 16)) if digits else ""
        case "\\":
            return chr(int(escape[1:], 8))
        case wide:
            return chr(ord(wide) - _WIDE)


@dataclass(frozen=True, slots=True)
class _Code:
    """Bytes as characters of some bits each, beginning at any bit at which one may."""

    bits: int
    run: re.Pattern[str]  # as many characters as eight bytes take, or more
    zero: str
    number: Callable[[str], int]

    def decoded(self, text: str) -> Iterator[tuple[bytes, Places]]:
        """The text of all runs together, for each offset in a group of bytes that may begin it."""
        spans = [found.span() for found in self.run.finditer(text)]
        if not spans:
            return
        # More bits of nothing between them than two characters of a secret have side by side.
        joined = Joined(text, spans, 3 * self.zero)
        number, whole = self.number(joined.text), self.bits * len(joined.text)
        for skipped in sorted({self.bits * at % 8 for at in range(8)}):
            size = max(0, whole - skipped) // 8
            rest = number >> (whole - skipped - 8 * size) & ((1 << 8 * size) - 1)
            yield rest.to_bytes(size, "big"), partial(self._source, joined, skipped)

    def _source(self, joined: Joined, skipped: int, start: int, end: int) -> TextSpan:
        return joined.source(
            (skipped + 8 * start) // self.bits, -(-(skipped + 8 * end) // self.bits)
        )


_BASE64 = str.maketrans("-_", "+/")
_BASE32 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghijklmnopqrstuv")


def _number64(joined: str) -> int:
    missing = -len(joined) % 4
    code = base64.b64decode(joined.translate(_BASE64) + missing * "A")
    return int.from_bytes(code, "big") >> 6 * missing


def _number32(joined: str) -> int:
    return int(joined.upper().translate(_BASE32), 32)


RUN = re.compile(r"[A-Za-z\d+/_-]{11,}", re.ASCII)
_CODES = (
    _Code(6, RUN, "A", _number64),
    _Code(5, re.compile(r"[A-Za-z2-7]{13,}"), "A", _number32),
    _Code(4, re.compile(r"[\da-fA-F]{16,}", re.ASCII), "0", partial(int, base=16)),
)


def text_bytes(signs: bytes) -> bytes:
    """For each byte whether it is one of a text; all `signs` are."""
    return bytes(byte in _TEXT or byte in signs for byte in range(256))


def decoded(text: str, is_text: bytes) -> Iterator[tuple[str, Places]]:
    """The decoder of each code."""
    for code in _CODES:
        for raw, places in code.decoded(text):
            spans = _stretches(raw.translate(is_text))
            if spans:
                part = Joined(raw.decode("latin-1"), spans, BETWEEN)
                yield part.text, partial(through, places, part.source)


def _stretches(is_text: bytes) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = is_text.find(_TEXT_RUN)
    while at >= 0:
        end = is_text.find(0, at)
        end = len(is_text) if end < 0 else end
        start = max(0, at - _AROUND_CHARS)
        if spans and start <= spans[-1][1]:
            start, _ = spans.pop()
        spans.append((start, min(len(is_text), end + _AROUND_CHARS)))
        at = is_text.find(_TEXT_RUN, end)
    return spans


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says, and which span of the text says it from one place to another.

    `work` is what it takes to have this reading, in characters that are compared.
    """

    text: str
    source: Places
    work: int


def readings(text: str, is_text: bytes) -> Iterator[Reading]:
    """All readings of it, the text itself first, made one by one.

    Of bytes in a code, stretches of text alone are read: see `text_bytes`.
    """
    # An escape is taken whole, so that what is left of a JSON text is still one.
    whole = Rewritten(text, ESCAPE, unescaped_once).whole
    yield from _readings(text, whole, CODED_TIMES_MAX, is_text)


def unescaped(text: str) -> Iterator[str]:
    """The text itself, and without its escapes, once to as often as is read."""
    yield from (reading.text for reading in _readings(text, TextSpan, 0, b""))


def _readings(text: str, source: Places, coded_times: int, is_text: bytes) -> Iterator[Reading]:
    unescaped: Rewritten | None = None
    for _ in range(ESCAPED_TIMES_MAX):
        plain = Rewritten(text, UNSEEN, None)
        runs = _new_runs(plain, unescaped) if coded_times else []
        size = sum(end - start for start, end in runs)
        yield Reading(text, source, _UNESCAPED_WORK * len(text) + _DECODED_WORK * size)
        plain_source = partial(through, source, plain.source)
        if plain.text is not text:
            yield Reading(plain.text, plain_source, len(plain.text))
        if coded_times == CODED_TIMES_MAX:  # what is in a code is not read as numbers, too
            yield from _rare_readings(text, source)
        coded = Joined(plain.text, runs, BETWEEN)
        for decoded_text, places in decoded(coded.text, is_text):
            within = partial(through, plain_source, partial(through, coded.source, places))
            yield from _readings(decoded_text, within, coded_times - 1, is_text)
        unescaped = Rewritten(text, ESCAPE, unescaped_once)
        if unescaped.text is text:
            return
        text, source = unescaped.text, partial(through, source, unescaped.source)
    yield Reading(text, source, len(text))


def _rare_readings(text: str, source: Places) -> Iterator[Reading]:
    """As numbers of bytes; and without escapes that few texts have, also as numbers then."""
    yield from _number_readings(text, source)
    for pattern in RARE_ESCAPES:
        rare = Rewritten(text, pattern, rarely_unescaped_once)
        if rare.text is not text:
            rare_source = partial(through, source, rare.source)
            yield Reading(rare.text, rare_source, _UNESCAPED_WORK * len(text))
            yield from _number_readings(rare.text, rare_source)


def _number_readings(text: str, source: Places) -> Iterator[Reading]:
    for numbers, places in read_numbers(text):
        yield Reading(numbers, partial(through, source, places), len(text))


def _new_runs(plain: Rewritten, unescaped: Rewritten | None) -> list[tuple[int, int]]:
    """Where a code may be, without those that were there, and were decoded, before.

    The characters of all codes are among those of Base64.
    """
    runs = [found.span() for found in RUN.finditer(plain.text)]
    if unescaped is None:
        return runs
    return [run for run in runs if not unescaped.kept(plain.kept(run))]


NUMBERS_MIN = 8  # fewer are no run of a secret
_BYTE_MAX = 0xFF
# Each number by itself: letters and digits beside it make it a word. What is between two of
# them does not matter, so that lists, dumps and calls are read alike.
_NUMBER = re.compile(
    r"(?<![0-9A-Za-z])(?:0[xXoO]|[xXuU](?=[\da-fA-F]))?([\da-fA-F]{2,8})[hH]?(?![0-9A-Za-z])",
    re.ASCII,
)
_DIGITS_MAX = 3  # of the number of one byte in base 8 and 10


def _hexadecimal(digits: str) -> str:
    """A byte for two digits each, as dumps group them; the zeros of wide characters are dropped."""
    if len(digits) % 2:
        return ""
    return bytes.fromhex(digits).decode("latin-1").replace("\0", "")


def _in_base(base: int) -> Callable[[str], str]:
    """A character for each number of a byte."""

    def text_of(digits: str) -> str:
        if len(digits) > _DIGITS_MAX:
            return ""
        try:
            number = int(digits, base)
        except ValueError:
            return ""
        return chr(number) if number <= _BYTE_MAX else ""

    return text_of


_BASES = (_hexadecimal, _in_base(10), _in_base(8))


def read_numbers(text: str) -> Iterator[tuple[str, Places]]:
    """The text that all numbers of the text form, in each base."""
    found = list(_NUMBER.finditer(text))
    digits = [one[1] for one in found]
    if sum(map(len, digits)) < 2 * NUMBERS_MIN:  # a character takes two digits or more
        return
    spans = [one.span() for one in found]
    distinct = {*digits}
    for text_of in _BASES:
        said = {one: text_of(one) for one in distinct}
        parts = [said[one] for one in digits]
        whole = "".join(parts)
        if len(whole) >= NUMBERS_MIN:
            yield whole, _places(spans, list(accumulate(map(len, parts), initial=0)))


def _places(spans: list[tuple[int, int]], begins: list[int]) -> Places:
    def source(start: int, end: int) -> TextSpan:
        first, last = bisect_right(begins, start) - 1, bisect_right(begins, end - 1) - 1
        return TextSpan(spans[first][0], spans[last][1])

    return source
