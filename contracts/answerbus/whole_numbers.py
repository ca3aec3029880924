"""Whole numbers that are written with a fraction or an exponent: `3.0` and `3e0` are 3.

JSON Schema takes `3.0` for an integer, and some languages write all numbers so. Pydantic in strict
mode does not: such a text is rewritten for it.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from answerbus.json_values import signs_of_values
from answerbus.problems import place_of

# Of all texts that are read for one: wrong numbers may show one after the other.
VALUES_MAX: Final = 40_000
_VALUES_MIN: Final = 1_000  # what reading a text counts at least

T = TypeVar("T")


def read_whole_numbers(read: Callable[[bytes], T], text: bytes) -> T:
    """What `read` makes of the text with integers where it wants them; raises its error."""
    document: Any = None
    left = VALUES_MAX
    while True:
        try:
            return read(text)
        except ValidationError as error:
            left -= max(signs_of_values(text), _VALUES_MIN)
            document = from_json(text) if document is None else document
            if left < 0 or not _put_whole_numbers(error, document):
                raise
            text = to_json(document)


def _put_whole_numbers(error: ValidationError, document: Any) -> bool:
    """Put integers where `error` wants them; whether there were any."""
    is_changed = False
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        if found["type"] == "int_type":
            place, number = place_of(found["loc"], document)
            if isinstance(number, float) and number.is_integer():
                _put(document, place, int(number))
                is_changed = True
    return is_changed


def _put(document: Any, place: list[str | int], value: int) -> None:
    *outer, last = place
    for part in outer:
        document = document[part]
    document[last] = value
