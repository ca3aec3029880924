"""Scalars on the wire: a type, and the rules on texts that a provider enforces."""

from pydantic import JsonValue

from services.worker.core.json_schema.keywords import Draft
from services.worker.dialects.compiler.parsing.bounds import TEXT_LENGTHS, bounds, sizes_of
from services.worker.dialects.compiler.parsing.subschemas import Subschema, Subschemas
from services.worker.dialects.compiler.shapes.describe import joined
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import JsonObject, Never, Plain

# The formats that the validator checks, and since which draft; all others only describe.
_CHECKED_SINCE = (
    dict.fromkeys(["date", "time", "date-time", "email", "idn-email", "regex", "uri"], Draft.D4)
    | dict.fromkeys(["hostname", "ipv4", "ipv6"], Draft.D4)
    | dict.fromkeys(["uri-reference", "uri-template", "json-pointer"], Draft.D6)
    | dict.fromkeys(["iri", "iri-reference", "idn-hostname", "relative-json-pointer"], Draft.D7)
    | dict.fromkeys(["duration", "uuid"], Draft.D2019)
)


def plain(kind: str, subschemas: Subschemas, rules: Rules, notes: Notes) -> Plain | Never:
    """A scalar of one JSON type with the rules that the dialect carries."""
    found: JsonObject | None = {}
    if kind == "string":
        found = _text_rules(subschemas, rules, notes)
    elif kind in {"integer", "number"}:
        found = bounds(kind, subschemas, rules, notes)
    return Never() if found is None else Plain({"type": kind} | found | _described(subschemas))


def any_of_type(kind: JsonValue, subschemas: Subschemas) -> Plain:
    """Any value of a type, or of one of several."""
    return Plain({"type": kind} | _described(subschemas))


def _described(subschemas: Subschemas) -> JsonObject:
    """The keyword that describes a value, if anything does."""
    text = description(subschemas)
    return {"description": text} if text else {}


def description(subschemas: Subschemas) -> str:
    """All that is said in words of what satisfies `subschemas`."""
    texts = (atom.get("description") for atom in subschemas)
    return joined(*(text for text in texts if isinstance(text, str)))


def _text_rules(subschemas: Subschemas, rules: Rules, notes: Notes) -> JsonObject | None:
    """The rules of a text; None if no text can be right."""
    found = _pattern(subschemas, rules, notes)
    found |= _format(subschemas, rules, notes, beside=found)
    limits = {} if found and rules.one_text_rule else rules.text_lengths
    lengths = sizes_of(subschemas, TEXT_LENGTHS, limits, notes)
    return None if lengths is None else found | lengths


def _pattern(subschemas: Subschemas, rules: Rules, notes: Notes) -> JsonObject:
    found: JsonObject = {}
    for atom, pattern in _texts(subschemas, "pattern"):
        written = rules.pattern(pattern)
        if written is not None and found in ({}, {"pattern": written}):
            found = {"pattern": written}
        else:
            notes.not_enforced("pattern", atom.path)
    return found


def _format(
    subschemas: Subschemas, rules: Rules, notes: Notes, *, beside: JsonObject
) -> JsonObject:
    formats = frozenset[str]() if beside and rules.one_text_rule else rules.formats
    found: JsonObject = {}
    for atom, name in _texts(subschemas, "format"):
        if name not in _CHECKED_SINCE or atom.draft < _CHECKED_SINCE[name]:
            continue
        if name in formats and not found:
            found = {"format": name}
            if name in rules.format_patterns:
                found["pattern"] = rules.format_patterns[name]
        elif found.get("format") != name:
            notes.not_enforced("format", atom.path)
    return found


def _texts(subschemas: Subschemas, keyword: str) -> list[tuple[Subschema, str]]:
    values = [(atom, atom.get(keyword)) for atom in subschemas]
    return [(atom, value) for atom, value in values if isinstance(value, str)]
