"""Finds the places of an answer that may be written otherwise than they are meant."""

from collections import defaultdict

from services.worker.dialects.compiler.shapes.reach import inside, reached
from services.worker.dialects.compiler.shapes.shape import Object, Plain, Shape, Shapes, Text


def rewritten(shapes: Shapes) -> frozenset[Shape]:
    """The shapes whose values do not always mean themselves, or hold such a value.

    A value of any other shape is an answer as it is, and need not be looked at.
    """
    holders = defaultdict[Shape, list[Shape]](list)
    found = set[Shape]()
    for shape in reached(shapes, shapes.root):
        for part in inside(shape):
            holders[shapes.seen(part)].append(shape)
        if _may_mean_another(shape):
            found.add(shape)
    waiting = [*found]
    while waiting:
        fresh = set(holders[waiting.pop()]) - found
        found |= fresh
        waiting.extend(fresh)
    return frozenset(found)


def _may_mean_another(shape: Shape) -> bool:
    """Whether that is so beside its parts."""
    match shape:
        case Text():
            return True
        case Plain(any_case=any_case):
            return any_case
        case Object(members=members, rest=rest, is_carrier=is_carrier):
            may_be_left_out = any(member.optional for member in members)
            return is_carrier or rest is not None or may_be_left_out
        case _:
            return False
