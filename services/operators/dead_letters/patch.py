"""JSON Patch (RFC 6902) on one document, bounded, without exceptions."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException, resolve_pointer
from pydantic import JsonValue

from answerbus.dead_letter import PatchOperation
from answerbus.limits import JSON_DEPTH_MAX, REQUEST_BYTES_MAX


@dataclass(frozen=True, slots=True)
class EditFault:
    """Why an edit does not fit, in words for its author."""

    reason: str


class _PatchError(Exception):
    """The operation does not fit the document."""


def patched(document: JsonValue, operations: Sequence[PatchOperation]) -> JsonValue | EditFault:
    """The document after all operations; it itself is left as it was."""
    document = deepcopy(document)
    for number, operation in enumerate(operations, start=1):
        try:
            document = _applied(document, operation)
        except (_PatchError, JsonPatchException) as error:
            reason = str(error)
        except JsonPointerException:  # its text may quote the document
            reason = "there is nothing there (a JSON pointer is one like /context/instructions)"
        else:
            continue
        return EditFault(f"operation {number} ({operation.op} {operation.path!r}): {reason}")
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
    if max(operation.path.count("/"), (operation.from_ or "").count("/")) > JSON_DEPTH_MAX:
        raise _PatchError("the pointer is deeper than any request")
    if operation.op == "test":  # to the library 1 equals true
        if not same(resolve_pointer(document, operation.path), operation.value):
            raise _PatchError("the value is another one")
        return document
    if operation.from_ is not None:
        resolve_pointer(document, operation.from_)
    members = operation.model_dump(by_alias=True, exclude_unset=True)
    changed: JsonValue = JsonPatch([members]).apply(document, in_place=True)
    return _bounded(changed)


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
