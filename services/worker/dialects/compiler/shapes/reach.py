"""The shapes that an answer can reach, and a bound on them before other steps of the compiler."""

from collections.abc import Iterator, Sequence

from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.shape import Array, Object, Shape, Shapes, Union

REACH_MAX = 50_000  # alternatives of all unions together; some tenths of a second
REMEDY = "fewer alternatives, each told apart by its type or by a tag"


def bound_reach(shapes: Shapes) -> Shapes:
    """The same shapes. Raises TooComplexError, as soon as there is too much.

    So all later work on unions is a small multiple of the bound, also on long chains of them.
    """
    alternatives = 0
    for union in unions_in(shapes, shapes.root, *shapes.definitions.values()):
        alternatives += len(shapes.leaves(union)) + 1
        if alternatives > REACH_MAX:
            raise TooComplexError(REMEDY)
    return shapes


def unions_in(shapes: Shapes, *roots: Shape) -> Iterator[Union]:
    """Every union that an answer can reach from `roots`, each once."""
    return (shape for shape in reached(shapes, *roots) if isinstance(shape, Union))


def reached(shapes: Shapes, *roots: Shape) -> Iterator[Shape]:
    """Every shape that an answer can reach from `roots`, each once."""
    known: set[Shape] = set()
    waiting = [*roots]
    while waiting:
        shape = shapes.seen(waiting.pop())
        if shape in known:
            continue
        known.add(shape)
        waiting.extend(inside(shape))
        yield shape


def inside(shape: Shape) -> Sequence[Shape]:
    """The shapes of the parts of a value, or the alternatives of one."""
    match shape:
        case Array():
            return [shape.items]
        case Object():
            return [*(member.shape for member in shape.members), shape.others]
        case Union():
            return shape.branches
        case _:
            return []
