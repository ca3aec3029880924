"""Gives up unions whose branches could read one answer in two ways, and takes their fallback."""

from collections.abc import Iterator

from services.worker.dialects.compare import Comparer
from services.worker.dialects.complexity import TooComplexError
from services.worker.dialects.notes import Notes
from services.worker.dialects.shape import Array, Object, Shape, Shapes, Text, Union

REACH_MAX = 50_000  # alternatives of all unions together; some tenths of a second
_ROUNDS_MAX = 16
_REMEDY = "fewer alternatives, each told apart by its type or by a tag"


def settle(shapes: Shapes, notes: Notes, *, verbatim: bool) -> None:
    """Leave only unions of which every branch that fits an answer reads it alike.

    A union that is given up changes what stands around it, so this goes on until nothing changes.
    An answer that is written as it is meant cannot be misread: then only such go as are empty.
    """
    _bound(shapes)
    for _ in range(_ROUNDS_MAX):
        is_sure = shapes.leaves if verbatim else Comparer(shapes).is_clear
        doubtful = [union for union in _unions(shapes) if not is_sure(union)]
        for union in doubtful:
            shapes.give_up(union)
            if isinstance(union.fallback, Text):
                notes.as_text(union.path)
            else:
                notes.not_enforced(union.keyword, union.path)
        if not doubtful:
            _note_overlaps(shapes, notes)
            return
    raise TooComplexError(_REMEDY)


def _bound(shapes: Shapes) -> None:
    """All work on unions is a small multiple of what they reach through unions inside them."""
    reached = 0
    for union in _unions(shapes):
        reached += len(shapes.leaves(union)) + 1
        if reached > REACH_MAX:
            raise TooComplexError(_REMEDY)


def _note_overlaps(shapes: Shapes, notes: Notes) -> None:
    """A provider is told `anyOf`; that no second alternative may hold is checked after."""
    comparer = Comparer(shapes)
    for union in _unions(shapes):
        if union.keyword == "oneOf" and not comparer.is_exclusive(union):
            notes.not_enforced("oneOf", union.path)


def _unions(shapes: Shapes) -> Iterator[Union]:
    """Every union that an answer can reach."""
    seen: set[int] = set()
    waiting: list[Shape] = [shapes.root]
    while waiting:
        shape = shapes.seen(waiting.pop())
        if id(shape) in seen:
            continue
        seen.add(id(shape))
        match shape:
            case Array():
                waiting.append(shape.items)
            case Object():
                waiting.extend(member.shape for member in shape.members)
                waiting.append(shape.others)
            case Union():
                waiting.extend(shape.branches)
                yield shape
            case _:
                pass
