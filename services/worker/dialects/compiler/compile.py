"""Compiles a resolved schema to a wire schema: the steps that all strict dialects share."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from pydantic import JsonValue

from answerbus import failure
from answerbus.dead_letter import UnsupportedSchema
from answerbus.failure import Problem
from services.worker.core.json_schema.keywords import AnySchema
from services.worker.core.schema.resolved import DecodedAnswer, ResolvedSchema, Unusable, WireSchema
from services.worker.dialects.compiler.lowering.overflow import pack_overflow
from services.worker.dialects.compiler.lowering.resolve_unions import resolve_unions
from services.worker.dialects.compiler.parsing.parse import SchemaParser
from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.describe import instructions, lost_descriptions
from services.worker.dialects.compiler.shapes.names import portable_name
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import (
    JsonObject,
    Member,
    Never,
    Object,
    Shape,
    Shapes,
)
from services.worker.dialects.compiler.wire.decode import decode
from services.worker.dialects.compiler.wire.emit import emit
from services.worker.dialects.compiler.wire.rewritten import rewritten

ROOT_NAME = "answer"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A schema on its way into a dialect.

    `shapes` say how answers are written, all but the `rewritten` ones as they are meant; where the
    root is not an object, it is the member `answer` of one. `keeps_null`: an optional member may be
    left out or null. `lost` are descriptions without a place in `schema`, by JSON pointer.
    """

    shapes: Shapes
    rewritten: frozenset[Shape]
    is_boxed: bool
    keeps_null: bool
    schema: JsonObject
    notes: tuple[str, ...]
    lost: dict[str, str] = field(default_factory=dict)

    def decode(self, value: JsonValue) -> JsonValue | failure.Invalid:
        """The answer that was written as `value`."""
        return self.read(value).answer

    @property
    def may_mean_two(self) -> bool:
        """Whether null and "left out" are written alike."""
        return bool(self.rewritten) and not self.keeps_null

    def read(self, value: JsonValue, *, otherwise: bool = False) -> DecodedAnswer:
        """The same, and what was dropped of it; or the other meaning, if there may be two."""
        decoded = DecodedAnswer(value)
        if self.rewritten:
            decoded = decode(self.shapes, self.rewritten, value, otherwise=otherwise)
        read = decoded.answer
        if not self.is_boxed or not isinstance(read, dict) or ROOT_NAME not in read:
            return decoded
        if len(read) > 1:  # more than the member that was asked for
            expected = f"an object with the member `{ROOT_NAME}` alone"
            return DecodedAnswer(failure.Invalid(problems=(Problem.of("", "box", expected),)))
        return DecodedAnswer(read[ROOT_NAME], decoded.remarks)


def compile_shapes(schema: AnySchema, rules: Rules) -> Compiled | Unusable:
    """Reads, settles and writes a schema; what cannot be carried is refused with a reason."""
    reader = SchemaParser(schema, rules)
    try:
        shapes = pack_overflow(reader.shapes(), rules, reader.notes)
        resolve_unions(shapes, reader.notes, verbatim=rules.verbatim)
        return _emitted(reader, shapes, rules)
    except TooComplexError as error:
        return _unsupported(rules.dialect, error.remedy)


def _emitted(reader: SchemaParser, shapes: Shapes, rules: Rules) -> Compiled | Unusable:
    root = shapes.seen(shapes.root)
    if isinstance(root, Never):
        return _unsupported(rules.dialect, "a schema that some answer can satisfy")
    is_boxed = not isinstance(root, Object) and not rules.verbatim
    if is_boxed:
        box = Object((Member(ROOT_NAME, shapes.root, optional=False),), rest=None)
        shapes = shapes.starting_at(box)
    wire, without_text = emit(shapes, keeps_null=rules.keeps_null)
    return Compiled(
        shapes,
        frozenset() if rules.verbatim else rewritten(shapes),
        is_boxed,
        rules.keeps_null,
        wire,
        reader.notes.texts(),
        lost_descriptions(reader.document, wire, without_text),
    )


def compile_resolved(resolved: ResolvedSchema, rules: Rules) -> WireSchema | Unusable:
    """The wire schema of what is asked, or why the dialect cannot carry it."""
    if resolved.schema is None:
        return compile_text(resolved, rules.dialect)
    compiled = compile_shapes(resolved.schema, rules)
    if isinstance(compiled, Unusable):
        return compiled
    beyond = rules.excess(compiled.schema)
    if beyond is not None:
        return _unsupported(rules.dialect, beyond)
    whole, has_both = compiled.schema, bool(rules.format_patterns)
    return WireSchema(
        dialect=rules.dialect,
        name=portable_name(resolved.name, ROOT_NAME),
        schema=_without("format", whole, rules) if has_both else whole,
        shown=_without("pattern", whole, rules) if has_both else None,
        read=compiled.read,
        read_otherwise=partial(compiled.read, otherwise=True) if compiled.may_mean_two else None,
        notes=compiled.notes,
        instructions=instructions(compiled.lost),
    )


def _without(keyword: Literal["format", "pattern"], schema: JsonObject, rules: Rules) -> JsonObject:
    """The schema without a format beside its pattern, or without that pattern."""
    name = schema.get("format")
    known = rules.format_patterns.get(name) if isinstance(name, str) else None
    has_both = known is not None and schema.get("pattern") == known
    return {
        key: _inside(keyword, value, rules)
        for key, value in schema.items()
        if not (has_both and key == keyword)
    }


def _inside(keyword: Literal["format", "pattern"], value: JsonValue, rules: Rules) -> JsonValue:
    match value:
        case dict():
            return _without(keyword, value, rules)
        case list():
            return [_inside(keyword, item, rules) for item in value]
        case _:
            return value


def _unsupported(dialect: str, expected: str) -> Unusable:
    """A refusal that says what the sender of the schema can do about it."""
    problem = Problem.of("", "unsupported", expected)
    return Unusable(UnsupportedSchema(dialect=dialect, problems=(problem,)))


def compile_text(resolved: ResolvedSchema, dialect: str) -> WireSchema:
    """Plain text in any dialect: no schema goes out, and the content is the answer."""
    return WireSchema(dialect=dialect, name=resolved.name, schema=None)
