"""JSON Patch (RFC 6902) on one document: the six operations, bounded, without exceptions."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus.dead_letter import PatchOperation
from answerbus.limits import JSON_DEPTH_MAX, REQUEST_BYTES_MAX

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_BAD_ESCAPE = re.compile(r"~(?![01])")

_Change = Callable[[JsonValue, str], JsonValue]
_Place = Callable[[JsonValue, str, JsonValue], JsonValue]


@dataclass(frozen=True, slots=True)
class EditFault:
    """Why an edit does not fit, in words for its author."""

    reason: str


class _PatchError(Exception):
    """The operation does not fit the document."""


def patched(document: JsonValue, operations: Sequence[PatchOperation]) -> JsonValue | EditFault:
    """The document after all operations; it itself is left as it was."""
    for number, operation in enumerate(operations, start=1):
        try:
            document = _applied(document, operation)
        except _PatchError as error:
            message = f"operation {number} ({operation.op} {operation.path!r})"
            return EditFault(f"{message}: {error}")
    return document


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal as JSON: 1 equals 1.0, and neither equals true."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
        case (bool(), _) | (_, bool()):
            return one is other
        case _:
            return one == other


def _applied(document: JsonValue, operation: PatchOperation) -> JsonValue:
    path = _tokens(operation.path)
    match operation.op:
        case "test":
            if not same(_at(document, path), operation.value):
                raise _PatchError("the value is another one")
            return document
        case "remove":
            return _changed(document, path, _removed)
        case "replace":
            _at(document, path)
            return _bounded(_put(document, path, operation.value, _set))
        case "add":
            return _bounded(_put(document, path, operation.value, _added))
        case "copy":
            value = _at(document, _source(operation))
            return _bounded(_put(document, path, value, _added))
        case "move":
            source = _source(operation)
            if path[: len(source)] == source and path != source:
                raise _PatchError("nothing can be moved into itself")
            value = _at(document, source)
            if path == source:
                return document
            return _bounded(_put(_changed(document, source, _removed), path, value, _added))


def _source(operation: PatchOperation) -> list[str]:
    if operation.from_ is None:
        raise _PatchError("`from` is missing")
    return _tokens(operation.from_)


def _tokens(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise _PatchError(f"{pointer!r} is no JSON pointer, such as /context/instructions")
    if pointer.count("/") > JSON_DEPTH_MAX:
        raise _PatchError("the pointer is deeper than any request")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _at(document: JsonValue, tokens: Sequence[str]) -> JsonValue:
    for token in tokens:
        document = _member(document, token)
    return document


def _member(container: JsonValue, token: str) -> JsonValue:
    match container:
        case dict() if token in container:
            return container[token]
        case list():
            return container[_index(container, token)]
        case _:
            raise _PatchError(f"there is no {token!r}")


def _index(items: list[JsonValue], token: str, *, beyond: int = 0) -> int:
    if not _INDEX.fullmatch(token) or int(token) >= len(items) + beyond:
        raise _PatchError(f"there is no item {token!r} in a list of {len(items)}")
    return int(token)


def _put(document: JsonValue, tokens: Sequence[str], value: JsonValue, how: _Place) -> JsonValue:
    if not tokens:
        return value
    return _changed(document, tokens, lambda container, token: how(container, token, value))


def _changed(document: JsonValue, tokens: Sequence[str], change: _Change) -> JsonValue:
    """The document with another container at the end of the path; what is not on it is shared."""
    if not tokens:
        raise _PatchError("a request cannot be removed")
    if len(tokens) == 1:
        return change(document, tokens[0])
    inner = _changed(_member(document, tokens[0]), tokens[1:], change)
    return _set(document, tokens[0], inner)


def _set(container: JsonValue, token: str, value: JsonValue) -> JsonValue:
    match container:
        case dict():
            return {**container, token: value}
        case list():
            index = _index(container, token)
            return [*container[:index], value, *container[index + 1 :]]
        case _:
            raise _PatchError(f"there is no place for {token!r}")


def _added(container: JsonValue, token: str, value: JsonValue) -> JsonValue:
    if isinstance(container, list):
        is_end = token == "-"  # noqa: S105 - no password
        index = len(container) if is_end else _index(container, token, beyond=1)
        return [*container[:index], value, *container[index:]]
    return _set(container, token, value)


def _removed(container: JsonValue, token: str) -> JsonValue:
    match container:
        case dict() if token in container:
            return {name: value for name, value in container.items() if name != token}
        case list():
            index = _index(container, token)
            return [*container[:index], *container[index + 1 :]]
        case _:
            raise _PatchError(f"there is no {token!r}")


def _bounded(document: JsonValue) -> JsonValue:
    """The document, unless copies of copies have made it larger or deeper than a request may be."""
    waiting: list[tuple[JsonValue, int]] = [(document, 1)]
    size = 0
    while waiting:
        value, depth = waiting.pop()
        size += 1 + (len(value) if isinstance(value, str) else 0)
        if size > REQUEST_BYTES_MAX or depth > JSON_DEPTH_MAX:
            raise _PatchError("the request becomes larger or deeper than requests may be")
        if isinstance(value, dict):
            size += sum(map(len, value))
            waiting.extend((member, depth + 1) for member in value.values())
        elif isinstance(value, list):
            waiting.extend((item, depth + 1) for item in value)
    return document
