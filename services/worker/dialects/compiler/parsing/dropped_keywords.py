"""Keywords that no dialect carries: they are named in the notes, and checked after."""

from collections.abc import Sequence

from pydantic import JsonValue

from services.worker.dialects.compiler.parsing.bounds import NUMBER_BOUNDS
from services.worker.dialects.compiler.parsing.choices import type_of
from services.worker.dialects.compiler.parsing.subschemas import Subschema, Subschemas
from services.worker.dialects.compiler.shapes.notes import Notes

_BY_TYPE = {
    "string": ("contentEncoding", "contentMediaType"),
    "array": ("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    "object": (
        *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
    ),
}
_OF_VALUES = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": tuple(sorted(NUMBER_BOUNDS)),
    "array": ("minItems", "maxItems", "items", "prefixItems"),
    "object": ("required", "properties", "patternProperties", "additionalProperties"),
}
_ALWAYS = ("not", "if")
_NOTHING_IF_FALSE = {"not", "uniqueItems"}


def note_dropped_keywords(
    subschemas: Subschemas, types: frozenset[str] | None, notes: Notes
) -> None:
    """Name each rule of `subschemas` that the validator alone will check."""
    for atom in subschemas:
        for keyword in _ALWAYS:
            _note(atom, keyword, notes)
        for kind, keywords in _BY_TYPE.items():
            if types is None or kind in types:
                for keyword in keywords:
                    _note(atom, keyword, notes)


def note_beside_choices(subschemas: Subschemas, values: Sequence[JsonValue], notes: Notes) -> None:
    """Name the rules that some of the values to choose from may break: they are not sorted out."""
    types = frozenset[str]().union(*map(type_of, values))
    for atom in subschemas:
        for kind, keywords in _OF_VALUES.items():
            if kind in types:
                for keyword in keywords:
                    _note(atom, keyword, notes)


def _note(atom: Subschema, keyword: str, notes: Notes) -> None:
    value = atom.get(keyword)
    if value is not None and not (value is False and keyword in _NOTHING_IF_FALSE):
        notes.not_enforced(keyword, atom.path)
