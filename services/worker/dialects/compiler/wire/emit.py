"""Writes shapes down as the JSON Schema that strict providers take: closed, and all required."""

import json
from dataclasses import replace

from pydantic import JsonValue

from services.worker.dialects.compiler.parsing.choices import same
from services.worker.dialects.compiler.parsing.freeform import PACKED_CHARS_MAX, rest_schema
from services.worker.dialects.compiler.shapes.complexity import ComplexityAllowance, TooComplexError
from services.worker.dialects.compiler.shapes.describe import joined
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    JsonObject,
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

# Merging can multiply a text of 64 KiB; of real schemas that large none comes to 128 KiB. The 5,000
# properties that a provider takes come to 2.5 MiB, if each is free-form and says how it is written.
WIRE_SCHEMA_BYTES_MAX = 3 * 1024 * 1024
_TOO_LARGE = (
    f"a schema that comes to at most {WIRE_SCHEMA_BYTES_MAX} bytes once alternatives are merged"
)
_FRAME_BYTES = 64  # the keywords of one schema, or a reference
_MEMBER_BYTES = 8  # the quotes, colons and commas of one member

_BARE = {"type", "description"}  # such schemas differ in type alone and share one list of types


def emit(shapes: Shapes, *, keeps_null: bool) -> tuple[JsonObject, frozenset[str]]:
    """The wire schema, and the descriptions that one place or another had no room for.

    `keeps_null`: an optional member may be left out or null, where both are allowed.
    """
    try:
        return _written(shapes, _Writer(shapes, _room(), keeps_null=keeps_null))
    except TooComplexError:  # a description is in each place that its schema was merged into
        return _written(shapes, _Writer(shapes, _room(), keeps_null=keeps_null, wordless=True))


def _room() -> ComplexityAllowance:
    return ComplexityAllowance(WIRE_SCHEMA_BYTES_MAX, _TOO_LARGE)


def _written(shapes: Shapes, writer: "_Writer") -> tuple[JsonObject, frozenset[str]]:
    schema = writer.write(shapes.seen(shapes.root))
    definitions = writer.definitions()
    whole = schema | {"$defs": definitions} if definitions else schema
    return whole, frozenset(writer.without_text)


class _Writer:
    """Writes within `room` bytes; `wordless` leaves out all descriptions but hints."""

    def __init__(
        self, shapes: Shapes, room: ComplexityAllowance, *, keeps_null: bool, wordless: bool = False
    ) -> None:
        self._shapes = shapes
        self._room = room
        self._without_descriptions = wordless
        self._keeps_null = keeps_null
        self._used: list[str] = []
        self.without_text: set[str] = set()

    def definitions(self) -> JsonObject:
        """The definitions referred to, directly or indirectly."""
        written: JsonObject = {}
        for name in self._used:  # grows while it is walked
            written[name] = self.write(self._shapes.definitions[name])
        return written

    def write(self, shape: Shape) -> JsonObject:
        self._room.take(_FRAME_BYTES)
        match shape:
            case Plain():
                return self._plain(shape)
            case Text():
                hint = shape.words if self._without_descriptions else shape.hint
                self._room.take(_bytes(hint))
                return {"type": "string", "description": hint}
            case Array():
                array: JsonObject = {"type": "array", "items": self.write(shape.items)}
                return array | shape.sizes | self._described(shape)
            case Object():
                return self._object(shape)
            case Union():
                seen = self._shapes.seen(shape)
                return self._union(shape) if seen is shape else self.write(seen)
            case Ref():
                if shape.name not in self._used:
                    self._used.append(shape.name)
                return self._with_description({"$ref": f"#/$defs/{shape.name}"}, shape.description)
            case Never():
                # No valid answer has anything here, so that this is as good as any schema, and
                # unlike `false` it is one that every provider takes.
                return {"type": "null"}

    def _plain(self, shape: Plain) -> JsonObject:
        schema = shape.schema
        if self._without_descriptions:
            schema = {k: value for k, value in schema.items() if k != "description"}
        self._room.take(_bytes(schema))
        return schema

    def _described(self, shape: Array | Object) -> JsonObject:
        if self._without_descriptions or not shape.description:
            return {}
        self._room.take(_bytes(shape.description))
        return {"description": shape.description}

    def _with_description(self, schema: JsonObject, text: str) -> JsonObject:
        """The schema with a description before its own; beside a reference nothing may stand."""
        if self._without_descriptions or not text:
            return schema
        self._room.take(_bytes(text))
        own = schema.get("description")
        if "$ref" in schema:
            self.without_text.add(text)
            return schema
        return schema | {"description": joined(text, own if isinstance(own, str) else "")}

    def _object(self, shape: Object) -> JsonObject:
        required = shape.required
        members = [m for m in shape.members if not (m.optional and self._is_never(m.shape))]
        always = [m for m in members if m.name in required]
        properties: JsonObject = {m.name: self._member(m, shape) for m in always}
        if shape.rest is not None:
            described = {member.name: self._bare(member) for member in shape.packed}
            properties[shape.rest] = rest_schema(described, nullable=not shape.may_omit)
            self._room.take(_bytes(properties[shape.rest]))
        last = [m for m in members if m.name not in required]
        properties |= {m.name: self._member(m, shape) for m in last}
        written: JsonObject = {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            "additionalProperties": self._others(shape.others),
        }
        return written | self._described(shape)

    def _others(self, shape: Shape) -> JsonValue:
        if self._is_never(shape):
            return False
        return True if isinstance(shape, Plain) and shape.is_anything else self.write(shape)

    def _bare(self, member: Member) -> JsonObject | None:
        """The form of a packed member, if that needs no definition."""
        room = ComplexityAllowance(PACKED_CHARS_MAX, _TOO_LARGE)
        inner = _Writer(
            self._shapes, room, keeps_null=self._keeps_null, wordless=self._without_descriptions
        )
        try:
            written = inner.write(member.shape)
        except TooComplexError:
            return None
        return None if inner._used else written

    def _member(self, member: Member, owner: Object) -> JsonObject:
        self._room.take(2 * _bytes(member.name) + _MEMBER_BYTES)  # it may be required by name
        if owner.may_omit:
            drops_null = member.optional and not self._keeps_null
            written = self.write(member.shape)
            return self._without_null(written) if drops_null else written
        if not member.optional or self._shapes.accepts_null(member.shape):
            return self.write(member.shape)
        if isinstance(member.shape, Ref):  # beside the alternative there is a place for words
            bare = self.write(replace(member.shape, description=""))
            return self._with_description(_nullable(bare), member.shape.description)
        return _nullable(self.write(member.shape))

    def _union(self, shape: Union) -> JsonObject:
        circular = self._shapes.is_circular(shape)  # which no grammar can be made of
        branches = self._shapes.leaves(shape) if circular else shape.branches
        possible = [branch for branch in branches if not self._is_never(branch)]
        written = self._any_of([self.write(branch) for branch in possible or branches])
        return self._with_description(written, shape.description)

    def _without_null(self, schema: JsonObject) -> JsonObject:
        """The schema of an optional member that is left out where it would be null."""
        kinds, choices, branches = (schema.get(word) for word in ("type", "enum", "anyOf"))
        if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1:
            left = [kind for kind in kinds if kind != "null"]
            shorter: JsonObject = {"type": left[0] if len(left) == 1 else left}
            if isinstance(choices, list):
                shorter["enum"] = [choice for choice in choices if choice is not None]
            return schema | shorter
        if isinstance(branches, list):
            others = [b for b in branches if isinstance(b, dict) and b.get("type") != "null"]
            if len(others) > 1:
                return schema | {"anyOf": list[JsonValue](others)}
            return self._with_description(others[0], str(schema.get("description") or ""))
        return schema

    def _is_never(self, shape: Shape) -> bool:
        """Whether nothing can be here, as shows when all definitions are read."""
        return isinstance(self._shapes.seen(shape), Never)

    def _any_of(self, schemas: list[JsonObject]) -> JsonObject:
        written = {same(schema): schema for schema in schemas}
        bare = [schema for schema in written.values() if schema.keys() <= _BARE]
        if len({same(schema.get("description")) for schema in bare}) > 1:
            bare = []  # what is said of one of them would be said of all, or of none
        branches = [schema for schema in written.values() if schema not in bare]
        if bare:
            kinds = [*dict.fromkeys(kind for schema in bare for kind in _kinds(schema))]
            branches.append(bare[0] | {"type": kinds[0] if len(kinds) == 1 else [*kinds]})
        return branches[0] if len(branches) == 1 else {"anyOf": list[JsonValue](branches)}


def _bytes(value: JsonValue) -> int:
    """How many bytes `value` comes to as JSON text."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


def _kinds(schema: JsonObject) -> list[str]:
    kinds = schema["type"]
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]


def _nullable(schema: JsonObject) -> JsonObject:
    """The schema, or null in its place."""
    kind, choices = schema.get("type"), schema.get("enum")
    if isinstance(kind, str) and kind not in {"object", "array"}:
        with_null: JsonObject = {"enum": [*choices, None]} if isinstance(choices, list) else {}
        return schema | {"type": [kind, "null"]} | with_null
    branches = schema.get("anyOf")
    if isinstance(branches, list):
        return schema | {"anyOf": [*branches, {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}
