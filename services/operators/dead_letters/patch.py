"""JSON Patch (RFC 6902) on one document, bounded, without exceptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException, resolve_pointer
from pydantic import JsonValue

from answerbus.dead_letter import PatchOperation
from answerbus.limits import JSON_DEPTH_MAX, REQUEST_BYTES_MAX, REQUEST_VALUES_MAX

PUT_VALUES_MAX = REQUEST_VALUES_MAX  # by all operations: copies of copies grow fast
_TOO_LARGE = "the request becomes larger or deeper than requests may be"


@dataclass(frozen=True, slots=True)
class EditFault:
    """Why an edit does not fit, in words for its author."""

    reason: str


class _PatchError(Exception):
    """The operation does not fit the document."""


def patched(document: JsonValue, operations: Sequence[PatchOperation]) -> JsonValue | EditFault:
    """The document after all operations; it itself is left as it was."""
    document, values_left = _copied(document), PUT_VALUES_MAX
    for number, operation in enumerate(operations, start=1):
        try:
            document, values = _applied(document, operation, values_left)
            values_left -= values
        except (_PatchError, JsonPatchException) as error:
            reason = str(error)
        except JsonPointerException:  # its text may quote the document
            reason = "there is nothing there (a JSON pointer is one like /context/instructions)"
        else:
            continue
        return EditFault(f"operation {number} ({operation.op} {operation.path!r}): {reason}")
    if operations and not _is_bounded(document):
        return EditFault(f"all operations: {_TOO_LARGE}")
    return document


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal as JSON: 1 equals 1.0, and neither equals true."""
    waiting: list[tuple[Any, Any]] = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        kind = type(left)
        if kind is dict:
            if type(right) is not dict or left.keys() != right.keys():
                return False
            waiting.extend((left[name], right[name]) for name in left)
        elif kind is list:
            if type(right) is not list or len(left) != len(right):
                return False
            waiting.extend(zip(left, right, strict=True))
        elif left is not right and (kind is bool or type(right) is bool or left != right):
            return False
    return True


def _applied(
    document: JsonValue, operation: PatchOperation, values_left: int
) -> tuple[JsonValue, int]:
    """The document after it, and how many values were put in place."""
    levels = operation.path.count("/")
    if max(levels, (operation.from_ or "").count("/")) > JSON_DEPTH_MAX:
        raise _PatchError("the pointer is deeper than any request")
    if operation.op == "test":  # to the library 1 equals true
        if not same(resolve_pointer(document, operation.path), operation.value):
            raise _PatchError("the value is another one")
        return document, 0
    members = operation.model_dump(by_alias=True, exclude_unset=True)
    values = 0
    if operation.from_ is not None:
        values = _values(resolve_pointer(document, operation.from_), levels + 1, values_left)
    elif operation.op in ("add", "replace"):
        values = _values(operation.value, levels + 1, values_left)
    changed: JsonValue = JsonPatch([members]).apply(document, in_place=True)
    return changed, values


def _copied(value: JsonValue) -> JsonValue:
    """No recursion, which may cost 8 µs a call at some depths (see services/text/digest.py)."""
    whole: list[Any] = [value]
    waiting: list[Any] = [whole]
    while waiting:
        inside = waiting.pop()
        for place in range(len(inside)) if isinstance(inside, list) else [*inside]:
            if isinstance(inside[place], dict | list):
                inside[place] = inside[place].copy()
                waiting.append(inside[place])
    copied: JsonValue = whole[0]
    return copied


def _values(value: JsonValue, level: int, limit: int) -> int:
    """How many there are in it, with itself: at most `limit`, at levels that a request may have."""
    count, waiting = 0, [(value, level)]
    while waiting:
        inner, depth = waiting.pop()
        count += 1
        if count > limit or depth > JSON_DEPTH_MAX:
            raise _PatchError(_TOO_LARGE)
        if isinstance(inner, dict):
            waiting.extend((member, depth + 1) for member in inner.values())
        elif isinstance(inner, list):
            waiting.extend((item, depth + 1) for item in inner)
    return count


def _is_bounded(document: JsonValue) -> bool:
    """Whether it has the size that a request may have, counted by its texts and values."""
    waiting: list[tuple[JsonValue, int]] = [(document, 1)]
    size = 0
    while waiting:
        value, depth = waiting.pop()
        size += 1 + (len(value) if isinstance(value, str) else 0)
        if size > REQUEST_BYTES_MAX or depth > JSON_DEPTH_MAX:
            return False
        if isinstance(value, dict):
            size += sum(map(len, value))
            waiting.extend((member, depth + 1) for member in value.values())
        elif isinstance(value, list):
            waiting.extend((item, depth + 1) for item in value)
    return True
