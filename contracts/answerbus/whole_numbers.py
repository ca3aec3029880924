"""Whole numbers that are written with a fraction or an exponent: `3.0` and `3e0` are 3.

JSON Schema takes `3.0` for an integer, and some languages write all numbers so. Pydantic in strict
mode does not: such a text is written anew for it.
"""

from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from answerbus.problems import place_of


def with_whole_numbers(error: ValidationError, text: bytes) -> bytes | None:
    """The text with integers where `error` wants them; None if there is nothing to change."""
    wanted = [
        found["loc"]
        for found in error.errors(include_url=False, include_context=False)
        if found["type"] == "int_type" and _is_whole(found["input"])
    ]
    if not wanted:
        return None
    is_changed = False
    document: Any = from_json(text)
    for location in wanted:
        place, number = place_of(location, document)
        if _is_whole(number):
            _put(document, place, int(number))
            is_changed = True
    return to_json(document) if is_changed else None


def _put(document: Any, place: list[str | int], value: int) -> None:
    *outer, last = place
    for part in outer:
        document = document[part]
    document[last] = value


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()
