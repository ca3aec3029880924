"""Scalars on the wire: a type, and the rules on texts that a provider enforces."""

import re

from services.worker.core.keywords import Draft
from services.worker.dialects.atoms import Atom, Atoms
from services.worker.dialects.notes import Notes
from services.worker.dialects.numbers import bounds
from services.worker.dialects.rules import Rules
from services.worker.dialects.shape import JsonObject, Never, Plain

# The formats that the authority checks, and since which draft; all others only describe.
_CHECKED_SINCE = (
    dict.fromkeys(["date", "time", "date-time", "email", "idn-email", "regex", "uri"], Draft.D4)
    | dict.fromkeys(["hostname", "ipv4", "ipv6"], Draft.D4)
    | dict.fromkeys(["uri-reference", "uri-template", "json-pointer"], Draft.D6)
    | dict.fromkeys(["iri", "iri-reference", "idn-hostname", "relative-json-pointer"], Draft.D7)
    | dict.fromkeys(["duration", "uuid"], Draft.D2019)
)

# What all engines mean the same by: literals, plain classes, groups, alternatives and counts.
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:|(?!\?)))|(?P<close>\))|(?P<either>\|)"
    r"|\\[dws.+*?()\[\]{}|/^$\\-]"
    r"|\[\^?(?:[^\[\]\\]|\\[dws.+*?()\[\]{}|/^$\\-])+\]"
    r"|\{\d+(?:,\d*)?\}|[^\\()|\[\]{}^$]"
)


def plain(kind: str, atoms: Atoms, rules: Rules, notes: Notes) -> Plain | Never:
    """A scalar of one JSON type with the rules that the dialect carries."""
    schema: JsonObject = {"type": kind}
    if kind == "string":
        schema |= _pattern(atoms, rules, notes) | _format(atoms, rules, notes)
    elif kind in {"integer", "number"}:
        found = bounds(kind, atoms, rules, notes)
        if found is None:
            return Never()
        schema |= found
    text = description(atoms)
    return Plain(schema | {"description": text} if text else schema)


def description(atoms: Atoms) -> str:
    """The first description that there is, or none."""
    texts = (atom.get("description") for atom in atoms)
    return next((text for text in texts if isinstance(text, str)), "")


def _pattern(atoms: Atoms, rules: Rules, notes: Notes) -> JsonObject:
    found: JsonObject = {}
    for atom, pattern in _texts(atoms, "pattern"):
        if rules.patterns and not found and is_portable(pattern):
            found = {"pattern": pattern}
        elif found.get("pattern") != pattern:
            notes.not_enforced("pattern", atom.path)
    return found


def _format(atoms: Atoms, rules: Rules, notes: Notes) -> JsonObject:
    found: JsonObject = {}
    for atom, name in _texts(atoms, "format"):
        if name not in _CHECKED_SINCE or atom.draft < _CHECKED_SINCE[name]:
            continue
        if name in rules.formats and not found:
            found = {"format": name}
        elif found.get("format") != name:
            notes.not_enforced("format", atom.path)
    return found


def _texts(atoms: Atoms, keyword: str) -> list[tuple[Atom, str]]:
    values = [(atom, atom.get(keyword)) for atom in atoms]
    return [(atom, value) for atom, value in values if isinstance(value, str)]


def is_portable(pattern: str) -> bool:
    """Whether a pattern means the same to every engine, be it searched for or matched whole.

    So it is anchored at both ends, and all its alternatives stand in groups.
    """
    if len(pattern) < 2 or pattern[0] != "^" or pattern[-1] != "$":
        return False
    depth, position, end = 0, 1, len(pattern) - 1
    while position < end:
        token = _TOKEN.match(pattern, position, end)
        if token is None:
            return False
        depth += (token["open"] is not None) - (token["close"] is not None)
        if depth < 0 or (depth == 0 and token["either"]):
            return False
        position = token.end()
    return depth == 0
