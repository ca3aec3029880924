"""Scalars on the wire: a type, and the rules on texts that a provider enforces."""

from pydantic import JsonValue

from services.worker.core.keywords import Draft
from services.worker.dialects.atoms import Atom, Atoms
from services.worker.dialects.describe import joined
from services.worker.dialects.notes import Notes
from services.worker.dialects.numbers import bounds
from services.worker.dialects.rules import Rules
from services.worker.dialects.shape import JsonObject, Never, Plain
from services.worker.dialects.sizes import TEXT_LENGTHS, sizes_of

# The formats that the authority checks, and since which draft; all others only describe.
_CHECKED_SINCE = (
    dict.fromkeys(["date", "time", "date-time", "email", "idn-email", "regex", "uri"], Draft.D4)
    | dict.fromkeys(["hostname", "ipv4", "ipv6"], Draft.D4)
    | dict.fromkeys(["uri-reference", "uri-template", "json-pointer"], Draft.D6)
    | dict.fromkeys(["iri", "iri-reference", "idn-hostname", "relative-json-pointer"], Draft.D7)
    | dict.fromkeys(["duration", "uuid"], Draft.D2019)
)


def plain(kind: str, atoms: Atoms, rules: Rules, notes: Notes) -> Plain | Never:
    """A scalar of one JSON type with the rules that the dialect carries."""
    found: JsonObject | None = {}
    if kind == "string":
        found = _text_rules(atoms, rules, notes)
    elif kind in {"integer", "number"}:
        found = bounds(kind, atoms, rules, notes)
    return Never() if found is None else Plain({"type": kind} | found | _described(atoms))


def of_type(kind: JsonValue, atoms: Atoms) -> Plain:
    """Whatever is of a type, or of one of several."""
    return Plain({"type": kind} | _described(atoms))


def _described(atoms: Atoms) -> JsonObject:
    """The keyword that describes a value, if anything does."""
    text = description(atoms)
    return {"description": text} if text else {}


def description(atoms: Atoms) -> str:
    """All that is said in words of what satisfies `atoms`."""
    texts = (atom.get("description") for atom in atoms)
    return joined(*(text for text in texts if isinstance(text, str)))


def _text_rules(atoms: Atoms, rules: Rules, notes: Notes) -> JsonObject | None:
    """What is told of a text; None if no text can be right."""
    found = _pattern(atoms, rules, notes)
    found |= _format(atoms, rules, notes, beside=found)
    limits = {} if found and rules.one_text_rule else rules.text_lengths
    lengths = sizes_of(atoms, TEXT_LENGTHS, limits, notes)
    return None if lengths is None else found | lengths


def _pattern(atoms: Atoms, rules: Rules, notes: Notes) -> JsonObject:
    found: JsonObject = {}
    for atom, pattern in _texts(atoms, "pattern"):
        written = rules.pattern(pattern)
        if written is not None and found in ({}, {"pattern": written}):
            found = {"pattern": written}
        else:
            notes.not_enforced("pattern", atom.path)
    return found


def _format(atoms: Atoms, rules: Rules, notes: Notes, *, beside: JsonObject) -> JsonObject:
    formats = frozenset[str]() if beside and rules.one_text_rule else rules.formats
    found: JsonObject = {}
    for atom, name in _texts(atoms, "format"):
        if name not in _CHECKED_SINCE or atom.draft < _CHECKED_SINCE[name]:
            continue
        if name in formats and not found:
            found = {"format": name}
            if name in rules.format_patterns:
                found["pattern"] = rules.format_patterns[name]
        elif found.get("format") != name:
            notes.not_enforced("format", atom.path)
    return found


def _texts(atoms: Atoms, keyword: str) -> list[tuple[Atom, str]]:
    values = [(atom, atom.get(keyword)) for atom in atoms]
    return [(atom, value) for atom, value in values if isinstance(value, str)]
