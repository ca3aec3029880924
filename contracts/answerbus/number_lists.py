"""Finds text that is written as the numbers of its bytes: `73 6b`, `0x73, 0x6b`, `[115, 107]`."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate

from answerbus.spans import Places, Span

NUMBERS_MIN = 8  # fewer are no run of a secret
_LAST = 0xFF
# Each number by itself: letters and digits beside it make it a word. What stands between two of
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
        return chr(number) if number <= _LAST else ""

    return text_of


_BASES = (_hexadecimal, _in_base(10), _in_base(8))


def read_numbers(text: str) -> Iterator[tuple[str, Places]]:
    """What all numbers of the text say together, in each base."""
    found = list(_NUMBER.finditer(text))
    if len(found) * 4 < NUMBERS_MIN:  # one number of eight digits is four bytes
        return
    spans = [one.span() for one in found]
    digits = [one[1] for one in found]
    distinct = {*digits}
    for text_of in _BASES:
        said = {one: text_of(one) for one in distinct}
        parts = [said[one] for one in digits]
        whole = "".join(parts)
        if len(whole) >= NUMBERS_MIN:
            yield whole, _places(spans, list(accumulate(map(len, parts), initial=0)))


def _places(spans: list[tuple[int, int]], begins: list[int]) -> Places:
    def source(start: int, end: int) -> Span:
        first, last = bisect_right(begins, start) - 1, bisect_right(begins, end - 1) - 1
        return Span(spans[first][0], spans[last][1])

    return source
