"""The one reader of JSON from outside: bytes become a value or a position, never an exception."""

import json
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from answerbus.json_values import has_more_values
from answerbus.limits import EVENT_VALUES_MAX, EXCERPT_BYTES_MAX
from answerbus.wire import clip

_LINE_STEP_BYTES = 64  # of text that is looked through newline by newline
_LARGEST = sys.float_info.max
_SPACED, _BEGINNING = b'": ', 64  # bytes, in which a text that is written with spaces shows that
_SPACE = b" \t\r\n"
# Half of a surrogate pair, by what follows it: no second half, or no escape at all.
_HALVES = ("lone leading surrogate in hex escape", "unexpected end of hex escape")
_WHOLE = "both halves of a surrogate pair; a text may be cut between them"
_SHOWN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_ZERO = re.compile(r"-?[0.]*[1-9]")  # some digit before the exponent


@dataclass(frozen=True, slots=True)
class Parsed:
    """One JSON document with unique names, finite numbers and bounded depth."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class NotJson:
    """Why and where (byte offset) the text is not one such document."""

    reason: str
    position: int
    excerpt: str


class _DuplicateName(Exception):
    """A member name occurs twice in one object, so readers would disagree on its value."""


def parse(text: bytes, values_max: int = EVENT_VALUES_MAX) -> Parsed | NotJson:
    """Reads RFC 8259 JSON in UTF-8; refuses duplicate names, NaN, infinities, 201 levels or more.

    A text with more values than an event may have is not read at all.
    """
    if has_more_values(text, values_max):
        return _not_json(f"at most {values_max:,} JSON values", 0, text)
    return parse_counted(text)


def parse_counted(text: bytes) -> Parsed | NotJson:
    """See `parse`; for a text whose values were counted.

    pydantic-core goes first because it bounds depth and digits; the standard library follows
    because only it can see duplicate names. A text that is written again to the same bytes has
    none: that is what most programs write without spaces, ours among them.
    """
    if not text.strip(_SPACE):
        return _not_json("one JSON document: the text is empty", 0, text)
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        return _not_json("text in UTF-8", error.start, text)
    try:
        value: JsonValue = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        return _not_json(_reason(str(error), text), _position(str(error), text), text)
    if _SPACED not in text[:_BEGINNING] and to_json(value) == text:
        return Parsed(value)
    try:
        _STANDARD.decode(decoded)
    except _DuplicateName as error:
        return _not_json(f"unique member names{error}", 0, text)
    except OverflowError:
        return _not_json("numbers within the range of a double", 0, text)
    return Parsed(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _DuplicateName(_repeated(name for name, _ in pairs))
    return members


def _repeated(names: Iterable[str]) -> str:
    """The first name that comes again, if it can be shown."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return f"; `{name}` is there twice" if _SHOWN_NAME.fullmatch(name) else ""
        seen.add(name)
    return ""


def _finite(digits: str) -> float:
    number = float(digits)
    if number and -_LARGEST <= number <= _LARGEST:
        return number
    if number or _NOT_ZERO.match(digits) is not None:
        raise OverflowError(digits)
    return number


def _no_constant(name: str) -> NoReturn:
    raise AssertionError(f"pydantic-core let {name} through")


_STANDARD = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
)


def _reason(message: str, text: bytes) -> str:
    if text.startswith(BOM_UTF8):
        return "one JSON document without a byte order mark"
    fault = message.rsplit(" at line ", 1)[0]
    return "one JSON document: " + (_WHOLE if fault in _HALVES else fault)


def _position(message: str, text: bytes) -> int:
    """pydantic-core names line and column; operators and models are better served by an offset."""
    _, _, place = message.rpartition(" at line ")
    line, _, column = place.partition(" column ")
    if not (line.isdigit() and column.isdigit()):
        return len(text)
    start = _line_start(text, int(line) - 1)
    return min(start + max(int(column) - 1, 0), len(text))


def _line_start(text: bytes, newlines: int) -> int:
    """Where the line after so many newlines begins; a text may have one for each byte."""
    start, end = 0, len(text)
    while newlines and end - start > _LINE_STEP_BYTES:
        middle = (start + end) // 2
        before = text.count(b"\n", start, middle)
        if before < newlines:
            start, newlines = middle, newlines - before
        else:
            end = middle
    for _ in range(newlines):
        start = text.find(b"\n", start) + 1
    return start


def _not_json(reason: str, position: int, text: bytes) -> NotJson:
    start = max(position - EXCERPT_BYTES_MAX // 4, 0)
    around = text[start : start + EXCERPT_BYTES_MAX // 2].decode(errors="replace")
    return NotJson(reason, position, clip(around, EXCERPT_BYTES_MAX))
