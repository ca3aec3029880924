"""Values of unknown shape: they travel as themselves, or as JSON text inside a string."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from answerbus import json_text
from services.worker.dialects.compiler.parsing.choices import type_of
from services.worker.dialects.compiler.parsing.scalars import any_of_type, description
from services.worker.dialects.compiler.parsing.subschemas import Subschemas
from services.worker.dialects.compiler.shapes.describe import joined
from services.worker.dialects.compiler.shapes.shape import TYPES, JsonObject, Plain, Shape, Text

_AS_JSON_TEXT = "A JSON value, written as JSON text into this string"
_HINT_CHARS_MAX = 500
PACKED_CHARS_MAX = 4_000
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class NoJsonText:
    """The string does not hold one JSON value: where reading stopped, and what is there."""

    position: int
    excerpt: str


def as_itself(subschemas: Subschemas) -> Plain:
    """The shape of anything that satisfies `subschemas`, for providers that let any JSON pass."""
    return any_of_type([*TYPES], subschemas)


def as_text(subschemas: Subschemas, types: frozenset[str] | None = None) -> Text:
    """The shape of what satisfies `subschemas` and is of `types`, with a hint for a description."""
    allowed = frozenset(TYPES) if types is None else types
    ruling = [atom.schema for atom in subschemas if atom.rules]
    schema = {k: v for k, v in ruling[0].items() if k != "description"} if len(ruling) == 1 else {}
    text = _short(schema)
    if schema and text and '"$ref"' not in text:
        return Text(
            f"{_AS_JSON_TEXT}; it must satisfy this JSON Schema: {text}",
            allowed,
            description(subschemas),
        )
    return Text(f"{_AS_JSON_TEXT}.", allowed, description(subschemas))


def _short(schema: JsonObject) -> str:
    """The schema as JSON text; empty if that is too long, and then no more is written."""
    text = ""
    for part in _COMPACT.iterencode(schema):
        text += part
        if len(text) > _HINT_CHARS_MAX:
            return ""
    return text


def one_as_text(values: Sequence[JsonValue]) -> Text:
    """The shape of one of several objects and lists, described if that takes few words."""
    types = frozenset[str]().union(*map(type_of, values))
    listed = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    which = f"; it must be one of these: {listed}" if len(listed) <= PACKED_CHARS_MAX else "."
    return Text(_AS_JSON_TEXT + which, types)


def one_text(shapes: Sequence[Shape]) -> list[Shape]:
    """The same shapes with one that is JSON text, where the first of several stood."""
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    if len(texts) < 2:
        return [*shapes]
    all_types = frozenset[str]().union(*(text.types for text in texts))
    whole = replace(as_text((), all_types), description=joined(*(t.description for t in texts)))
    others = [whole if shape is texts[0] else shape for shape in shapes]
    return [shape for shape in others if shape is whole or not isinstance(shape, Text)]


def unpack(text: str) -> JsonValue | NoJsonText:
    """The value that was written as `text`; read as strictly as a whole answer is."""
    parsed = json_text.parse(text.encode())
    if isinstance(parsed, json_text.Parsed):
        return parsed.value
    return NoJsonText(parsed.position, parsed.excerpt)


def rest_schema(described: Mapping[str, JsonObject | None], *, nullable: bool) -> JsonObject:
    """The description for a provider of the member that carries all others.

    `described` are members with a place in it, each with its schema, if that is short.
    """
    nothing = "null" if nullable else "empty"
    if not described:
        hint = f"JSON text of an object with further members, if there are any; usually {nothing}."
    else:
        known = json.dumps(described, ensure_ascii=False, separators=(",", ":"))
        short = known if len(known) <= PACKED_CHARS_MAX else ", ".join(described)
        hint = f"JSON text of an object with further members, or {nothing}. There may be: {short}"
    return {"type": ["string", "null"] if nullable else "string", "description": hint}
