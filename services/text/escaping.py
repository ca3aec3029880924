r"""Escapes text from outside for a screen: invisible signs and terminal commands; pure.

Shown as `\u202e` are control characters (but for line ends and tabs), what turns the direction of
writing, what has no width (joiners, selectors, tags, fillers), separators of lines and paragraphs,
spaces other than the plain one, half surrogate pairs, and what Unicode has not assigned.
"""

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring_ascii

_BEYOND_ASCII = re.compile(r"[^\x20-\x7e\n\t]+")
# Python calls the rest unprintable. To it these are letters and marks: what else Unicode calls
# Default_Ignorable_Code_Point, and the blank of Braille.
_NO_WIDTH = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef"
)
_UNSEEN = re.compile(f"[{_NO_WIDTH}]")
_BASIC_MAX = 0xFFFF
_KEPT_MAX = 2 * _BASIC_MAX


def plain(text: str) -> str:
    """The text, in which line ends and tabs stay."""
    return _BEYOND_ASCII.sub(lambda found: _each(found[0], _TO_TEXT), text)


def plain_line(text: str) -> str:
    """The text on one line."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def plain_json(document: str) -> str:
    """JSON text that we wrote, as one that means the same and has escapes in its strings."""
    return _BEYOND_ASCII.sub(lambda found: _each(found[0], _TO_JSON), document)


def plain_html(escaped: str) -> str:
    """Text that is escaped for HTML, as one that means the same and has references in it."""
    return _BEYOND_ASCII.sub(lambda found: _each(found[0], _TO_HTML), escaped)


def json_line(value: object) -> str:
    """A value as JSON on one line, for programs and for terminals."""
    return plain_json(json.dumps(value, ensure_ascii=False))


def json_lines(value: object) -> str:
    """A value as JSON, indented."""
    return plain_json(json.dumps(value, ensure_ascii=False, indent=2))


def _each(signs: str, table: "_Table") -> str:
    return signs if _is_seen(signs) else signs.translate(table)


class _Table(dict[int, str | int]):
    """The text shown for each sign, kept for those of the basic plane and for some others."""

    def __init__(self, shown: Callable[[str], str]) -> None:
        super().__init__()
        self._shown = shown

    def __missing__(self, code: int) -> str | int:
        found = code if _is_seen(sign := chr(code)) else self._shown(sign)
        if code <= _BASIC_MAX or len(self) < _KEPT_MAX:
            self[code] = found
        return found


def _is_seen(signs: str) -> bool:
    return signs.isprintable() and not _UNSEEN.search(signs)


def _shown(sign: str) -> str:
    code = ord(sign)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _shown_in_json(sign: str) -> str:
    return encode_basestring_ascii(sign)[1:-1]


def _shown_in_html(sign: str) -> str:
    return f"&#{ord(sign)};"


_TO_TEXT, _TO_JSON, _TO_HTML = _Table(_shown), _Table(_shown_in_json), _Table(_shown_in_html)
