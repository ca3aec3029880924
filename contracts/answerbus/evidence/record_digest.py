"""The digest of a record: that of its RFC 8785 text without `hash`."""

import hashlib
import json
from math import isinf
from typing import Any

_DIGITS_MAX = 15  # of whole numbers that a double holds, whichever they are
EXACT_MAX = 2**53 - 1  # of whole numbers in a double
NO_OBJECT = "it is not a JSON object, or a name in it occurs twice"
_NUMBERS: list[str] = []  # fractions and long whole numbers of the line that is read


def _fraction(text: str) -> float:
    _NUMBERS.append(text)
    number = float(text)
    if isinf(number):
        raise ValueError(text)
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        _NUMBERS.append(text)
    return int(text)


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers would disagree on the value of a name that occurs twice, and the hash covers one."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name occurs twice")
    return members


_READER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=_fraction,
    parse_int=_whole,
    parse_constant=_no_constant,
)
_WRITER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
)


def object_of(line: bytes) -> dict[str, Any] | None:
    """The JSON object, read as strictly as workers do; None if the line is another text."""
    _NUMBERS.clear()
    try:
        body = _READER.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def record_of(line: bytes) -> tuple[dict[str, Any], str] | None:
    """The record, and the digest that it should have; None if the line is not a JSON object."""
    body = object_of(line)
    if body is None:
        return None
    try:
        content = {name: value for name, value in body.items() if name != "hash"}
        is_plain = not _NUMBERS and line.isascii() and b"\\u" not in line
        text = _WRITER.encode(content) if is_plain else canonical(content)
        return body, "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    except (ValueError, RecursionError):
        return None


def canonical(value: Any) -> str:
    """RFC 8785; whole numbers beyond 2^53 are texts, since a double cannot hold them."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_WRITER.encode(n)}:{canonical(value[n])}" for n in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_MAX:
        return f'"{value}"'
    return _WRITER.encode(value)


def _number(value: float) -> str:
    """As ECMAScript writes it."""
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        text = digits + "0" * (point - count)
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        rest = f".{digits[1:]}" if count > 1 else ""
        text = f"{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"-{text}" if value < 0 else text
