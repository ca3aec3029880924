"""The ways in which a text can be read: as it is, unescaped, unwrapped, out of Base64 and the like.

Each reading knows where in the text each of its characters comes from, and what work it took.
"""

import base64
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from html.entities import html5
from itertools import accumulate
from typing import NamedTuple

# A text that was escaped more often than this, or coded again within a code within a code, is
# read no further, so that the work has an end.
ESCAPED_TIMES_MAX = 5
CODED_TIMES_MAX = 2
# What a character costs that is unescaped and searched for codes, and not only compared.
_WORK_PER_CHAR = 4


class Span(NamedTuple):
    """From a place in a text up to another."""

    start: int
    end: int


_Places = Callable[[int, int], Span]
_Put = Callable[[str], str] | None  # what stands for a piece that was found; None: nothing


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says, and which span of the text says it from one place to another.

    `work` is what it takes to have this reading, in characters that are compared.
    """

    text: str
    source: _Places
    work: int


def readings(text: str) -> Iterator[Reading]:
    """All readings of it, the text itself first; who has enough of them stops asking."""
    # An escape is taken whole, so that what is left of a JSON text is still one.
    whole = _Rewritten(text, _ESCAPE, _unescaped).whole
    yield from _readings(text, whole, CODED_TIMES_MAX)


def unescaped(text: str) -> Iterator[str]:
    """The text itself, and without its escapes, once to as often as is read."""
    yield from (reading.text for reading in _readings(text, Span, 0))


def _readings(text: str, source: _Places, coded_times: int) -> Iterator[Reading]:
    for _ in range(ESCAPED_TIMES_MAX):
        yield Reading(text, source, _WORK_PER_CHAR * len(text))
        plain, plain_source = _rewritten(text, source, _UNSEEN, None)
        if plain is not text:
            yield Reading(plain, plain_source, len(plain))
        if coded_times:
            yield from _decoded(plain, plain_source, coded_times - 1)
        before = text
        text, source = _rewritten(text, source, _ESCAPE, _unescaped)
        if text is before:
            return
    yield Reading(text, source, len(text))


# Where a line was wrapped, and signs that nobody sees.
_HIDDEN = r"\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff"
# One set of characters comes first, since this is searched for many times as fast.
_UNSEEN = re.compile(rf"([\r\n{_HIDDEN}](?:(?<=[\r\n])\s*|[{_HIDDEN}]*))")
_ESCAPE = re.compile(
    r"(\\(?:u(?:[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[\da-fA-F]{4})"
    r"|x[\da-fA-F]{2}|[^ux%&])"
    r"|%[\da-fA-F]{2}"
    r"|&(?:#\d{1,9};?|#[xX][\da-fA-F]{1,8};?|[A-Za-z][A-Za-z\d]{1,31};))",
    re.DOTALL | re.ASCII,
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LAST = 0x10FFFF


def _unescaped(escape: str) -> str:
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
            return chr(code) if code <= _LAST else escape
        case _:
            return html5.get(escape[1:], escape)


class _Rewritten:
    """A text in which what a pattern (of one group, the whole) finds is put otherwise."""

    def __init__(self, text: str, pattern: re.Pattern[str], put: _Put) -> None:
        self._text, self._pattern, self._put = text, pattern, put

    @cached_property
    def _old(self) -> list[str]:
        """The pieces of the text: each second one was found."""
        return self._pattern.split(self._text)

    @cached_property
    def _new(self) -> list[str]:
        """And what stands for each of them."""
        found = self._old[1::2]
        # Each escape is read once, since a text may hold the same one many times.
        put = {escape: self._put(escape) if self._put else "" for escape in {*found}}
        pieces = self._old.copy()
        pieces[1::2] = map(put.__getitem__, found)
        return pieces

    @property
    def text(self) -> str:
        """What it says now; the same object where that changes nothing."""
        if len(self._old) == 1:
            return self._text
        text = "".join(self._new)
        return self._text if text == self._text else text

    @cached_property
    def _starts_old(self) -> list[int]:
        return list(accumulate(map(len, self._old), initial=0))

    @cached_property
    def _starts_new(self) -> list[int]:
        return list(accumulate(map(len, self._new), initial=0))

    def source(self, start: int, end: int) -> Span:
        """Which span of the text says what is now from one place to another."""
        old, new = self._starts_old, self._starts_new
        first, last = bisect_right(new, start) - 1, bisect_right(new, end - 1) - 1
        return Span(
            old[first] + (0 if first % 2 else start - new[first]),
            old[last + 1] if last % 2 else old[last] + end - new[last],
        )

    def whole(self, start: int, end: int) -> Span:
        """A span of the text with all of each piece that it has a part of."""
        old = self._starts_old
        first, last = bisect_right(old, start) - 1, bisect_right(old, end - 1) - 1
        return Span(old[first] if first % 2 else start, old[last + 1] if last % 2 else end)


def _rewritten(
    text: str, source: _Places, pattern: re.Pattern[str], put: _Put
) -> tuple[str, _Places]:
    """The same text where that changes nothing."""
    new = _Rewritten(text, pattern, put)
    said = new.text
    if said is text:
        return text, source
    return said, lambda start, end: source(*new.source(start, end))


class _Joined:
    """Some spans of a text, one after the other, with something between them."""

    def __init__(self, text: str, spans: list[Span], between: str) -> None:
        self._spans = spans
        self.text = between.join([text[start:end] for start, end in spans])
        sizes = [len(between) + end - start for start, end in spans]
        self._begins = list(accumulate(sizes, initial=0))

    def source(self, start: int, end: int) -> Span:
        """Which span of the text is here from one place to another; one span holds all of it."""
        at = bisect_right(self._begins, start) - 1
        span, shift = self._spans[at], self._spans[at].start - self._begins[at]
        return Span(min(start + shift, span.end), min(end + shift, span.end))


@dataclass(frozen=True, slots=True)
class _Code:
    """Bytes as characters of some bits each, beginning at any bit at which one may."""

    bits: int
    run: re.Pattern[str]  # as many characters as eight bytes take, or more
    chars_min: int  # that many
    zero: str
    number: Callable[[str], int]

    def decoded(self, text: str, runs: list[Span]) -> Iterator[tuple[bytes, _Places]]:
        """What all runs together say, for each place in a group of bytes where they may begin."""
        spans = self._spans(text, runs)
        if not spans:
            return
        # More bits of nothing between them than two characters of a secret have side by side.
        joined = _Joined(text, spans, 3 * self.zero)
        number, whole = self.number(joined.text), self.bits * len(joined.text)
        for skipped in sorted({self.bits * at % 8 for at in range(8)}):
            size = max(0, whole - skipped) // 8
            rest = number >> (whole - skipped - 8 * size) & ((1 << 8 * size) - 1)
            yield rest.to_bytes(size, "big"), partial(self._source, joined, skipped)

    def _spans(self, text: str, runs: list[Span]) -> list[Span]:
        return [
            Span(*found.span())
            for start, end in runs
            if end - start >= self.chars_min
            for found in self.run.finditer(text, start, end)
        ]

    def _source(self, joined: _Joined, skipped: int, start: int, end: int) -> Span:
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


_RUN64 = re.compile(r"[A-Za-z\d+/_-]{11,}", re.ASCII)
_CODES = (
    _Code(6, _RUN64, 11, "A", _number64),
    _Code(5, re.compile(r"[A-Za-z2-7]{13,}"), 13, "A", _number32),
    _Code(4, re.compile(r"[\da-fA-F]{16,}", re.ASCII), 16, "0", partial(int, base=16)),
)


def _decoded(text: str, source: _Places, coded_times: int) -> Iterator[Reading]:
    """Out of each code, and what texts in there say in their turn."""
    # The characters of the other codes are among those of Base64.
    runs = [Span(*found.span()) for found in _RUN64.finditer(text)]
    for code in _CODES if runs else ():
        for raw, places in code.decoded(text, runs):
            said, within = raw.decode("latin-1"), partial(_through, source, places)
            yield Reading(said, within, len(said))
            texts = _texts(raw)
            if texts:
                part = _Joined(said, texts, _BETWEEN)
                further = partial(_through, within, part.source)
                yield from _readings(part.text, further, coded_times)


def _through(outer: _Places, inner: _Places, start: int, end: int) -> Span:
    return outer(*inner(start, end))


# What was no code is decoded to bytes of which few, one after the other, are signs of a text:
# these alone are read further, with some that are around them.
_TEXT = bytes(byte in b"\0\t\n\r" or 0x20 <= byte < 0x7F for byte in range(256))
_TEXT_RUN = 8 * b"\1"
_AROUND_CHARS = 32
_BETWEEN = 8 * "\xa4"  # no sign of a code, an escape or a wrap


def _texts(raw: bytes) -> list[Span]:
    is_text = raw.translate(_TEXT)
    spans: list[Span] = []
    at = is_text.find(_TEXT_RUN)
    while at >= 0:
        end = is_text.find(0, at)
        end = len(raw) if end < 0 else end
        start = max(0, at - _AROUND_CHARS)
        if spans and start <= spans[-1].end:
            start = spans.pop().start
        spans.append(Span(start, min(len(raw), end + _AROUND_CHARS)))
        at = is_text.find(_TEXT_RUN, end)
    return spans
