"""Texts composed of pieces of others; each piece keeps the positions of its characters."""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple


class TextSpan(NamedTuple):
    """From a place in a text up to another."""

    start: int
    end: int


Places = Callable[[int, int], TextSpan]
Put = Callable[[str], str] | None  # what stands for a piece that was found; None: nothing


def through(outer: Places, inner: Places, start: int, end: int) -> TextSpan:
    """Where a span of the inner text is in the outermost one."""
    return outer(*inner(start, end))


class Rewritten:
    """A text in which what a pattern (of one group, the whole) finds is put otherwise."""

    def __init__(self, text: str, pattern: re.Pattern[str], put: Put) -> None:
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

    @cached_property
    def text(self) -> str:
        """The text now; the same object if unchanged."""
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

    def source(self, start: int, end: int) -> TextSpan:
        """Which span of the text says what is now from one place to another."""
        old, new = self._starts_old, self._starts_new
        first, last = bisect_right(new, start) - 1, bisect_right(new, end - 1) - 1
        return TextSpan(
            old[first] + (0 if first % 2 else start - new[first]),
            old[last + 1] if last % 2 else old[last] + end - new[last],
        )

    def kept(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        """Where this was in the text, if nothing of it was put otherwise."""
        if span is None:
            return None
        start, end = span
        at = bisect_right(self._starts_new, start) - 1
        if at % 2 or self._starts_new[at + 1] < end:
            return None
        shift = self._starts_old[at] - self._starts_new[at]
        return start + shift, end + shift

    def whole(self, start: int, end: int) -> TextSpan:
        """A span of the text with all of each piece that it has a part of."""
        old = self._starts_old
        first, last = bisect_right(old, start) - 1, bisect_right(old, end - 1) - 1
        return TextSpan(old[first] if first % 2 else start, old[last + 1] if last % 2 else end)


class Joined:
    """Some spans of a text, one after the other, with something between them."""

    def __init__(self, text: str, spans: list[tuple[int, int]], between: str) -> None:
        self._spans = spans
        self.text = between.join([text[start:end] for start, end in spans])
        sizes = [len(between) + end - start for start, end in spans]
        self._begins = list(accumulate(sizes, initial=0))

    def source(self, start: int, end: int) -> TextSpan:
        """Which span of the text is here from one place to another; one span holds all of it."""
        at = bisect_right(self._begins, start) - 1
        shift, limit = self._spans[at][0] - self._begins[at], self._spans[at][1]
        return TextSpan(min(start + shift, limit), min(end + shift, limit))
