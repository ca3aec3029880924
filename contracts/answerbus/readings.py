"""The ways in which a text can be read: as it is, unescaped, unwrapped, out of Base64 and the like.

Each reading knows where in the text each of its characters comes from, and none takes longer than
in proportion to the text.
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


class Span(NamedTuple):
    """From a place in a text up to another."""

    start: int
    end: int


_Places = Callable[[int, int], Span]
_Put = Callable[[str], str] | None  # what stands for a piece that was found; None: nothing


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says, and which span of the text says it from one place to another."""

    text: str
    source: _Places


def readings(text: str) -> Iterator[Reading]:
    """All readings of it, the text itself first."""
    # An escape is taken whole, so that what is left of a JSON text is still one.
    yield from _readings(
        Reading(text, _Rewritten(text, _ESCAPE, _unescaped).whole), CODED_TIMES_MAX
    )


def unescaped(text: str) -> Iterator[str]:
    """The text itself, and without its escapes, once to as often as is read."""
    yield from (reading.text for reading in _readings(Reading(text, Span), 0))


def _readings(one: Reading, coded_times: int) -> Iterator[Reading]:
    yield one
    for _ in range(ESCAPED_TIMES_MAX):
        plain = _rewritten(one, _UNSEEN, None)
        if plain is not one:
            yield plain
        if coded_times:
            for code in _CODES:
                for inner in code.decoded(plain):
                    is_text = _TEXT.search(inner.text)
                    yield from _readings(inner, coded_times - 1) if is_text else [inner]
        further = _rewritten(one, _ESCAPE, _unescaped)
        if further is one:
            return
        one = further
        yield one


# Where a line was wrapped, and signs that nobody sees.
_UNSEEN = re.compile(
    r"[\r\n]\s*|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff]+"
)
# What was no code is decoded to bytes of which few are signs of a text.
_TEXT = re.compile(r"[\x00\t\n\r\x20-\x7e]{8}")
_ESCAPE = re.compile(
    r"\\(?:u(?:[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[\da-fA-F]{4})"
    r"|x[\da-fA-F]{2}|[^ux%&])"
    r"|%[\da-fA-F]{2}"
    r"|&(?:#\d{1,9};?|#[xX][\da-fA-F]{1,8};?|[A-Za-z][A-Za-z\d]{1,31};)",
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


class _Table(NamedTuple):
    """For each stretch of a text: where it began, where it begins now, and whether it was put."""

    old: list[int]
    new: list[int]
    put: list[bool]


class _Rewritten:
    """A text in which what a pattern finds is put otherwise, and all else stays."""

    def __init__(self, text: str, pattern: re.Pattern[str], put: _Put) -> None:
        self._before, self._pattern, self._put = text, pattern, put
        self.text = pattern.sub((lambda found: put(found[0])) if put else "", text)

    @cached_property
    def _table(self) -> _Table:
        """Made where something was found alone: most texts hold nothing."""
        table = _Table([0], [0], [False])
        length = at = 0
        for found in self._pattern.finditer(self._before):
            start, end = found.span()
            put_at = length + start - at
            length = put_at + (len(self._put(found[0])) if self._put else 0)
            at = end
            table.old.extend((start, end))
            table.new.extend((put_at, length))
            table.put.extend((True, False))
        return table

    def source(self, start: int, end: int) -> Span:
        """Which span of the text says what is now from one place to another."""
        old, new, put = self._table
        first, last = bisect_right(new, start) - 1, bisect_right(new, end - 1) - 1
        return Span(
            old[first] + (0 if put[first] else start - new[first]),
            old[last + 1] if put[last] else old[last] + end - new[last],
        )

    def whole(self, start: int, end: int) -> Span:
        """A span of the text with all of each piece that it has a part of."""
        old, _, put = self._table
        first, last = bisect_right(old, start) - 1, bisect_right(old, end - 1) - 1
        return Span(old[first] if put[first] else start, old[last + 1] if put[last] else end)


def _rewritten(one: Reading, pattern: re.Pattern[str], put: _Put) -> Reading:
    """The reading itself where that changes nothing."""
    new = _Rewritten(one.text, pattern, put)
    if new.text == one.text:
        return one
    return Reading(new.text, lambda start, end: one.source(*new.source(start, end)))


@dataclass(frozen=True, slots=True)
class _Code:
    """Bytes as characters of some bits each, beginning at any bit at which one may."""

    bits: int
    run: re.Pattern[str]  # as many characters as eight bytes take, or more
    zero: str
    number: Callable[[str], int]

    def decoded(self, one: Reading) -> Iterator[Reading]:
        """What all runs together say, for each place in a group of bytes where they may begin."""
        spans = [Span(*found.span()) for found in self.run.finditer(one.text)]
        if not spans:
            return
        # More bits of nothing between them than two characters of a secret have side by side.
        between = 3 * self.zero
        joined = between.join(one.text[span.start : span.end] for span in spans)
        begins = list(accumulate((len(between) + end - start for start, end in spans), initial=0))
        number, whole = self.number(joined), self.bits * len(joined)
        for skipped in sorted({self.bits * at % 8 for at in range(8)}):
            size = max(0, whole - skipped) // 8
            rest = number >> (whole - skipped - 8 * size) & ((1 << 8 * size) - 1)
            said = rest.to_bytes(size, "big").decode("latin-1")
            yield Reading(said, partial(self._source, one, spans, begins, skipped))

    def _source(
        self, one: Reading, spans: list[Span], begins: list[int], skipped: int, start: int, end: int
    ) -> Span:
        first, last = (skipped + 8 * start) // self.bits, -(-(skipped + 8 * end) // self.bits)
        run = bisect_right(begins, first) - 1
        shift = spans[run].start - begins[run]
        return one.source(first + shift, min(last + shift, spans[run].end))


_BASE64 = str.maketrans("-_", "+/")
_BASE32 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghijklmnopqrstuv")


def _number64(joined: str) -> int:
    missing = -len(joined) % 4
    code = base64.b64decode(joined.translate(_BASE64) + missing * "A")
    return int.from_bytes(code, "big") >> 6 * missing


def _number32(joined: str) -> int:
    return int(joined.upper().translate(_BASE32), 32)


_CODES = (
    _Code(6, re.compile(r"[A-Za-z\d+/_-]{11,}", re.ASCII), "A", _number64),
    _Code(5, re.compile(r"[A-Za-z2-7]{13,}"), "A", _number32),
    _Code(4, re.compile(r"[\da-fA-F]{16,}", re.ASCII), "0", partial(int, base=16)),
)
