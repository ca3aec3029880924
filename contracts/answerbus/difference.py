"""The first difference of two JSON values: its place, and both sides; pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus.problems import pointer

SHOWN_CHARS = 240  # of each side
_BEFORE_CHARS = 60  # of them before the first character that differs
_MISSING = object()


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two values differ first; each side as a text, from a little before that place."""

    place: str
    recorded: str
    present: str

    def __str__(self) -> str:
        return f"at {self.place}\n  - {self.recorded}\n  + {self.present}"

    def under(self, place: str) -> "FirstDifference":
        """The same in a larger value."""
        return FirstDifference(f"{place}{self.place}", self.recorded, self.present)


def first_difference(recorded: JsonValue, present: JsonValue) -> FirstDifference | None:
    """In the order of the recorded members; None if both are equal."""
    return next(_differences(recorded, present, ()), None)


def _differences(
    one: object, other: object, path: tuple[str | int, ...]
) -> Iterator[FirstDifference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            pair = one.get(name, _MISSING), other.get(name, _MISSING)
            yield from _differences(*pair, (*path, name))
    elif isinstance(one, list) and isinstance(other, list):
        for place, pair in enumerate(zip_longest(one, other, fillvalue=_MISSING)):
            yield from _differences(*pair, (*path, place))
    elif type(one) is not type(other) or one != other:
        yield FirstDifference(pointer(path) or "/", *_shown(_text(one), _text(other)))


def _text(value: object) -> str:
    if value is _MISSING:
        return "(nothing)"
    return value if isinstance(value, str) else to_json(value).decode(errors="replace")


def _shown(one: str, other: str) -> tuple[str, str]:
    """Both from the same place, so that a reader sees what precedes the difference."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    return _from(one, at), _from(other, at)


def _from(text: str, at: int) -> str:
    start = max(at - _BEFORE_CHARS, 0)
    end = start + SHOWN_CHARS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
