"""The inverse of decoding: writes an answer as a provider would have to under a wire schema."""

import json
from dataclasses import dataclass

import jsonschema_rs
from pydantic import JsonValue

from answerbus.failure import Invalid
from services.worker.dialects.compiler.compile import ROOT_NAME, Compiled
from services.worker.dialects.compiler.parsing.choices import same, type_of
from services.worker.dialects.compiler.shapes.reach import reached
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    Member,
    Never,
    Object,
    Plain,
    Ref,
    Shape,
    Shapes,
    Text,
    Union,
)
from services.worker.dialects.compiler.wire.decode import decode
from services.worker.dialects.compiler.wire.emit import emit
from services.worker.dialects.compiler.wire.rewritten import rewritten


class CannotBeWrittenError(Exception):
    """The shape has no place for the value."""


def exactly(value: JsonValue) -> str:
    """A text that two values share only if they are the same: 1, 1.0, "1" and true all differ."""
    return json.dumps(value, sort_keys=True)


def is_read_back(read: JsonValue, answer: JsonValue, rules: Rules) -> bool:
    """Whether an answer is the same as before it travelled.

    Where a member may be null or left out, both, some dialects have one way to write it.
    """
    if rules.verbatim or rules.keeps_null:
        return exactly(read) == exactly(answer)
    return exactly(without_nulls(read)) == exactly(without_nulls(answer))


def without_nulls(value: JsonValue) -> JsonValue:
    """The same with each member that is null left out."""
    match value:
        case dict():
            return {n: without_nulls(member) for n, member in value.items() if member is not None}
        case list():
            return [without_nulls(item) for item in value]
        case _:
            return value


def encode(compiled: Compiled, answer: JsonValue) -> JsonValue:
    """What a provider would write. CannotBeWrittenError: the wire schema is too narrow."""
    value = {ROOT_NAME: answer} if compiled.is_boxed else answer
    if not compiled.rewritten:
        return value
    return _Writer(compiled.shapes, compiled.keeps_null).write(compiled.shapes.root, value)


@dataclass(frozen=True)
class _Writer:
    """`keeps_null`: an optional member may be left out or null."""

    shapes: Shapes
    keeps_null: bool

    def write(self, shape: Shape, value: JsonValue) -> JsonValue:
        shape = self.shapes.seen(shape)
        match shape:
            case Text() if type_of(value) & shape.types:
                return json.dumps(value)
            case Object(is_carrier=True, members=(carrier,)):
                return {carrier.name: self.write(carrier.shape, value)}
            case Array() if isinstance(value, list):
                return [self.write(shape.items, item) for item in value]
            case Object() if isinstance(value, dict):
                return self._object(shape, value)
            case Union():
                return self._union(shape, value)
            case Plain() if type_of(value) & shape.types:
                choices = shape.schema.get("enum")
                if not isinstance(choices, list) or same(value) in map(same, choices):
                    return value
                raise CannotBeWrittenError(shape, value)
            case Plain() | Text() | Array() | Object() | Never() | Ref():
                raise CannotBeWrittenError(shape, value)

    def _object(self, shape: Object, value: dict[str, JsonValue]) -> JsonValue:
        written: dict[str, JsonValue] = {}
        for member in shape.members:
            if self._is_omitted(member, shape, value):
                continue
            if member.name in value:
                written[member.name] = self.write(member.shape, value[member.name])
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

    def _is_omitted(self, member: Member, owner: Object, value: dict[str, JsonValue]) -> bool:
        """Who does not keep null writes nothing for it, where nothing would do."""
        if not owner.may_omit or not member.optional:
            return False
        dropped = not self.keeps_null and self.shapes.accepts_null(member.shape)
        return member.name not in value or (value[member.name] is None and dropped)

    def _union(self, union: Union, value: JsonValue) -> JsonValue:
        """In the first branch that reads back as it was, else in the first that allows it."""
        possible = []
        for branch in self.shapes.leaves(union):
            try:
                written = self.write(branch, value)
            except CannotBeWrittenError:
                continue
            alone = self.shapes.starting_at(branch)
            if not jsonschema_rs.is_valid(
                emit(alone, keeps_null=self.keeps_null)[0],
                written,
                offline=True,
                validate_formats=True,
            ):
                continue
            read = decode(alone, rewritten(alone), written).answer
            if not isinstance(read, Invalid) and exactly(read) == exactly(value):
                return written
            possible.append(written)
        if not possible:
            raise CannotBeWrittenError(union, value)
        return possible[0]


def texts_in(shapes: Shapes) -> list[Text]:
    """The places where something travels as JSON text."""
    return [shape for shape in reached(shapes, shapes.root) if isinstance(shape, Text)]


def descriptions(schema: JsonValue) -> set[str]:
    """What a wire schema says in words of its string places."""
    match schema:
        case dict():
            inner = set[str]().union(*map(descriptions, schema.values()))
            is_text = schema.get("type") in ("string", ["string", "null"])  # null: left out
            return inner | {str(schema.get("description"))} if is_text else inner
        case list():
            return set[str]().union(*map(descriptions, schema))
        case _:
            return set()
