"""The inverse of decoding: writes an answer as a provider would have to under a wire schema."""

import json

import jsonschema_rs
from pydantic import JsonValue

from services.worker.dialects.choices import same, type_of
from services.worker.dialects.decode import decode
from services.worker.dialects.emit import emit
from services.worker.dialects.shape import (
    Array,
    Never,
    Object,
    Plain,
    Ref,
    Shape,
    Shapes,
    Text,
    Union,
)
from services.worker.dialects.wire import ROOT_NAME, Compiled


class CannotBeWrittenError(Exception):
    """The shape has no place for the value."""


def encode(compiled: Compiled, answer: JsonValue) -> JsonValue:
    """What a provider would write. CannotBeWrittenError: the wire schema is too narrow."""
    value = {ROOT_NAME: answer} if compiled.is_boxed else answer
    if compiled.is_verbatim:
        return value
    return _write(compiled.shapes, compiled.shapes.root, value)


def _write(shapes: Shapes, shape: Shape, value: JsonValue) -> JsonValue:
    shape = shapes.seen(shape)
    match shape:
        case Text():
            return json.dumps(value)
        case Array() if isinstance(value, list):
            return [_write(shapes, shape.items, item) for item in value]
        case Object() if isinstance(value, dict):
            return _write_object(shapes, shape, value)
        case Union():
            return _write_union(shapes, shape, value)
        case Plain() if type_of(value) & shape.types:
            choices = shape.schema.get("enum")
            if not isinstance(choices, list) or same(value) in map(same, choices):
                return value
            raise CannotBeWrittenError(shape, value)
        case Plain() | Array() | Object() | Never() | Ref():
            raise CannotBeWrittenError(shape, value)


def _write_object(shapes: Shapes, shape: Object, value: dict[str, JsonValue]) -> JsonValue:
    written: dict[str, JsonValue] = {}
    for member in shape.members:
        given = value.get(member.name)
        if shape.may_omit and member.optional and given is None:
            continue  # null and left out travel alike where both are allowed
        if member.name in value:
            written[member.name] = _write(shapes, member.shape, value[member.name])
        elif member.optional:
            written[member.name] = None
        else:
            raise CannotBeWrittenError(shape, value)
    placed = {member.name for member in shape.members}
    others = {name: inner for name, inner in value.items() if name not in placed}
    if shape.rest is not None:
        nothing = "" if shape.may_omit else None
        written[shape.rest] = json.dumps(others) if others else nothing
    elif others:
        raise CannotBeWrittenError(shape, value)
    return written


def _write_union(shapes: Shapes, union: Union, value: JsonValue) -> JsonValue:
    """In the first branch that reads back as it was, else in the first that allows it."""
    possible = []
    for branch in shapes.leaves(union):
        try:
            written = _write(shapes, branch, value)
        except CannotBeWrittenError:
            continue
        alone = shapes.starting_at(branch)
        if not jsonschema_rs.is_valid(
            emit(alone, verbatim=False), written, offline=True, validate_formats=True
        ):
            continue
        if decode(alone, written) == value:
            return written
        possible.append(written)
    if not possible:
        raise CannotBeWrittenError(union, value)
    return possible[0]
