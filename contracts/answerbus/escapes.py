"""Undoes the encodings that hide text: escapes of JSON, URLs and HTML, wraps, invisible signs."""

import re
from html.entities import html5

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
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LAST = 0x10FFFF


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
            return chr(code) if code <= _LAST else escape
        case _:
            return html5.get(escape[1:], escape)
