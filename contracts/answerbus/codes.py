"""Finds text that is encoded in Base64, Base32 or hexadecimal, at any bit offset."""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from answerbus.spans import Joined, Places, Span, through

# What was no code is decoded to bytes of which few, one after the other, are signs of a text:
# these alone are read further, with some that are around them.
_TEXT = b"\0\t\n\r" + bytes(range(0x20, 0x7F))
_TEXT_RUN = 8 * b"\1"
_AROUND_CHARS = 32
BETWEEN = 8 * "\xa4"  # no sign of a code, an escape or a wrap


@dataclass(frozen=True, slots=True)
class _Code:
    """Bytes as characters of some bits each, beginning at any bit at which one may."""

    bits: int
    run: re.Pattern[str]  # as many characters as eight bytes take, or more
    zero: str
    number: Callable[[str], int]

    def decoded(self, text: str) -> Iterator[tuple[bytes, Places]]:
        """What all runs together say, for each place in a group of bytes where they may begin."""
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

    def _source(self, joined: Joined, skipped: int, start: int, end: int) -> Span:
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
    """What says text out of each code."""
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
