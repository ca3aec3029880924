"""How large a value is, and what in it takes long to compare."""

import json
import math
from collections import defaultdict

from pydantic import JsonValue

FLOAT_BYTES = 30  # that take as long: fractions are compared exactly, with all their bits
_BITS_OF_BYTE = 3
_EXACT_BITS = 53  # integers of more read as the same machine number as others
_EXACT = 2.0**_EXACT_BITS


class Sizes:
    """The bytes of a value and of all that is inside, each counted once."""

    def __init__(self, value: JsonValue) -> None:
        self._containers: dict[int, int] = {}
        self._slow = set[int]()
        self._slow_numbers = 0
        self._wide = defaultdict[float, list[JsonValue]](list)
        self._measure(value)
        # How many items of a list may have the same hash although they differ.
        alike = (len(numbers) for numbers in self._wide.values() if len({*numbers}) > 1)
        self.alike = max(alike, default=0)

    def of(self, value: JsonValue) -> int:
        """About the length of its JSON text."""
        return self._containers[id(value)] if isinstance(value, dict | list) else _scalar(value)

    def is_slow(self, container: JsonValue) -> bool:
        """Whether it holds numbers that take long to compare: fractions, and long ones."""
        return id(container) in self._slow

    def _measure(self, value: JsonValue) -> int:
        before = self._slow_numbers
        match value:
            case dict():
                inside = sum(utf8_bytes(key) + 3 + self._measure(of) for key, of in value.items())
            case list():
                inside = sum(1 + self._measure(item) for item in value)
            case str():
                return utf8_bytes(value) + 2
            case float():
                self._slow_numbers += 1
                if not -_EXACT < value < _EXACT:
                    self._wide[value].append(value)
                return _float_bytes(value)
            case int():
                if value.bit_length() > _EXACT_BITS:
                    self._slow_numbers += 1
                    self._wide[_machine_number(value)].append(value)
                return value.bit_length() // _BITS_OF_BYTE + 1
            case _:
                return _scalar(value)
        self._containers[id(value)] = size = 2 + inside
        if self._slow_numbers > before:
            self._slow.add(id(value))
        return size


def json_bytes(value: JsonValue) -> int:
    """The length of its JSON text."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _float_bytes(value: float) -> int:
    if 1e-9 < value < 1e9:  # most are
        return FLOAT_BYTES
    return abs(math.frexp(value)[1]) // _BITS_OF_BYTE + FLOAT_BYTES


def _machine_number(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _scalar(value: JsonValue) -> int:
    match value:
        case str():
            return utf8_bytes(value) + 2
        case float():
            return _float_bytes(value)
        case bool() | None:
            return 4
        case int():
            return value.bit_length() // _BITS_OF_BYTE + 1
        case _:
            return 0  # it is in a container


def utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def exponent(number: float) -> int:
    """How many bits a number is away from 1, up or down."""
    if isinstance(number, int):
        return number.bit_length()
    return abs(math.frexp(number)[1])
