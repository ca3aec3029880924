"""Replaces unions whose branches could read one answer in two ways by their fallback."""

from services.worker.dialects.compiler.lowering.compare import Comparer
from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.reach import REMEDY, bound_reach, unions_in
from services.worker.dialects.compiler.shapes.shape import Shapes, Text

_ROUNDS_MAX = 16


def resolve_unions(shapes: Shapes, notes: Notes, *, verbatim: bool) -> None:
    """Leave only unions of which every branch that fits an answer reads it alike.

    A union that is given up changes what stands around it, so this goes on until nothing changes.
    An answer that is written as it is meant cannot be misread: then only such go as are empty.
    """
    bound_reach(shapes)
    for _ in range(_ROUNDS_MAX):
        is_sure = shapes.leaves if verbatim else Comparer(shapes).is_clear
        ambiguous = [union for union in unions_in(shapes, shapes.root) if not is_sure(union)]
        for union in ambiguous:
            shapes.use_fallback(union)
            if isinstance(union.fallback, Text):
                notes.as_text(union.path)
            else:
                notes.not_enforced(union.keyword, union.path)
        if not ambiguous:
            _note_overlaps(shapes, notes)
            return
    raise TooComplexError(REMEDY)


def _note_overlaps(shapes: Shapes, notes: Notes) -> None:
    """A provider gets `anyOf`; that no second alternative may hold is checked after."""
    comparer = Comparer(shapes)
    for union in unions_in(shapes, shapes.root):
        if union.keyword == "oneOf" and not comparer.is_exclusive(union):
            notes.not_enforced("oneOf", union.path)
