"""Judges how many names and values a JSON text holds, without reading it."""

import re

# Always matches from a quote on, and never goes back: a text without an end is one to the end.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_SIGNS = b",:[{"


def signs_of_values(text: bytes) -> int:
    """At least as many as there are names and values below the root: each has its own sign."""
    return len(text) - len(text.translate(None, _SIGNS))  # twice as fast as counting each


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether the text holds more than `limit` names and values below its root.

    Commas, colons and opening brackets count, so that an empty list in a list counts as two. Those
    inside of strings do not. Costs at most some milliseconds, whatever the text is.
    """
    if len(text) <= limit or signs_of_values(text) <= limit:
        return False
    strings_max = limit + 2  # each name or value is a string at most, and so may be the root
    bare, strings = _STRING.subn(b"", text, count=strings_max)
    return strings == strings_max or signs_of_values(bare) > limit


def values_of(text: bytes) -> int:
    """As many names and values as the text counts for, without a limit: for texts of our own."""
    return signs_of_values(_STRING.sub(b"", text))
