"""Where two answers agree: member by member, by their RFC 8785 texts; pure."""

from collections.abc import Iterator

from pydantic import JsonValue

from answerbus.compared import FieldAgreement
from answerbus.limits import COMPARED_FIELDS_MAX, COMPARED_PATH_CHARS_MAX
from answerbus.problems import pointer
from services.text.digest import canonical

DEPTH_MAX = 4  # of members of members; what is deeper, and lists, are compared as a whole


def is_equal(one: JsonValue, other: JsonValue) -> bool:
    return canonical(one) == canonical(other)


def agreement(one: JsonValue, other: JsonValue) -> tuple[FieldAgreement, ...]:
    """Of each member that one of them has; a member that the other lacks is not equal."""
    here, there = dict(_members(one)), dict(_members(other))
    paths = dict.fromkeys([*here, *there])
    found = [
        FieldAgreement(path=path, equal=here.get(path) == there.get(path))
        for path in paths
        if len(path) <= COMPARED_PATH_CHARS_MAX
    ]
    return tuple(found[:COMPARED_FIELDS_MAX])


def _members(value: JsonValue, path: str = "", depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """The innermost ones; a value that has none has no path."""
    if not isinstance(value, dict) or not value or depth == DEPTH_MAX:
        if path:
            yield path, canonical(value)
        return
    for name, member in value.items():
        yield from _members(member, path + pointer((name,)), depth + 1)
