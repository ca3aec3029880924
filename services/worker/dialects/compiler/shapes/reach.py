"""Bounds the number of alternatives of nested unions, before any other step of the compiler."""

from collections.abc import Iterator

from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.shape import Array, Object, Shape, Shapes, Union

REACH_MAX = 50_000  # alternatives of all unions together; some tenths of a second
REMEDY = "fewer alternatives, each told apart by its type or by a tag"


def bound_reach(shapes: Shapes) -> Shapes:
    """The same shapes. Raises TooComplexError, as soon as there is too much.

    So all later work on unions is a small multiple of the bound, also on long chains of them.
    """
    reached = 0
    for union in unions_in(shapes, shapes.root, *shapes.definitions.values()):
        reached += len(shapes.leaves(union)) + 1
        if reached > REACH_MAX:
            raise TooComplexError(REMEDY)
    return shapes


def unions_in(shapes: Shapes, *roots: Shape) -> Iterator[Union]:
    """Every union that an answer can reach from `roots`, each once."""
    seen: set[int] = set()
    waiting = [*roots]
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
