"""Keywords that no dialect carries: they are named in the notes, and checked after."""

from services.worker.dialects.atoms import Atom, Atoms
from services.worker.dialects.notes import Notes

_BY_TYPE = {
    "string": ("contentEncoding", "contentMediaType"),
    "array": ("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    "object": (
        *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
    ),
}
_ALWAYS = ("not", "if")


def note_unenforced(atoms: Atoms, types: frozenset[str] | None, notes: Notes) -> None:
    """Name each rule of `atoms` that nobody but the authority will look at."""
    for atom in atoms:
        for keyword in _ALWAYS:
            _note(atom, keyword, notes)
        for kind, keywords in _BY_TYPE.items():
            if types is None or kind in types:
                for keyword in keywords:
                    _note(atom, keyword, notes)


def _note(atom: Atom, keyword: str, notes: Notes) -> None:
    if atom.get(keyword) not in (None, False):
        notes.not_enforced(keyword, atom.path)
