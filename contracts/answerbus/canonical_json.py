"""RFC 8785 text of JSON values, so that a request has one digest however it is spelt."""

import json
from collections.abc import Mapping
from decimal import Decimal

from pydantic import JsonValue

from answerbus.wire import bytes_digest

_EXACT_INTEGER_MAX = 2**53 - 1  # RFC 8785 writes numbers as doubles, which are exact up to here


def canonical_digest(value: JsonValue) -> str:
    """The digest of the canonical text, with integers beyond 2^53 as texts of their digits."""
    return bytes_digest(_canonical(value).encode())


def _canonical(value: JsonValue) -> str:
    match value:
        case dict():
            return f"{{{','.join(_members(value))}}}"
        case list():
            return f"[{','.join(map(_canonical, value))}]"
        case float():
            return _number(value)
        case int() if abs(value) > _EXACT_INTEGER_MAX:
            return f'"{value}"'
        case _:
            return json.dumps(value, ensure_ascii=False)


def _members(value: Mapping[str, JsonValue]) -> list[str]:
    by_code_units = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return [f"{_canonical(name)}:{_canonical(value[name])}" for name in by_code_units]


def _number(value: float) -> str:
    """A double as ECMAScript writes it."""
    text = repr(value)
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        return format(Decimal(text), "f").removesuffix(".0")
    digits, _, exponent = text.partition("e")
    return f"{digits}e{int(exponent):+d}"
