"""Packs members beyond a provider's limits into the member that carries the rest."""

from collections import deque
from dataclasses import dataclass, replace

from services.worker.dialects.compiler.parsing.objects import REST_NAME, is_tag, unused
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    Member,
    Object,
    Plain,
    Ref,
    Shape,
    Shapes,
    Union,
)


def pack_overflow(shapes: Shapes, rules: Rules, notes: Notes) -> Shapes:
    """The same shapes with no more optional members and unions than the rules allow.

    What is near the root keeps its place. A root that is itself too much stays as it is.
    """
    if rules.optional_max is None or rules.unions_max is None:
        return shapes
    room = _Overflow(shapes, rules.optional_max, rules.unions_max)
    packed = room.packed()
    for owner, members in packed.values():
        notes.as_text(f"`{members[0].name}`" + _others(owner, members))
    if not packed:
        return shapes
    definitions = {name: _rebuilt(shape, packed) for name, shape in shapes.definitions.items()}
    return Shapes(_rebuilt(shapes.root, packed), definitions)


_Packed = dict[int, tuple[Object, list[Member]]]


def _others(owner: Object, members: list[Member]) -> str:
    more = len(members) - 1
    which = f" and {more} more members" if more else ""
    return f"{which} of {len(owner.members)} together"


@dataclass(frozen=True, slots=True)
class _Cost:
    optional: int
    unions: int


class _Overflow:
    """The room left, spent from the root on in breadth."""

    def __init__(self, shapes: Shapes, optional: int, unions: int) -> None:
        self._shapes = shapes
        self._left = _Cost(optional, unions)

    def packed(self) -> _Packed:
        found: _Packed = {}
        seen: set[int] = set()
        self._take(_Cost(0, self._unions(self._shapes.root)))
        waiting = deque([self._shapes.root])
        while waiting:
            shape = waiting.popleft()
            if id(shape) in seen:
                continue
            seen.add(id(shape))
            match shape:
                case Ref():
                    waiting.append(self._shapes.definitions[shape.name])
                case Array():
                    waiting.append(shape.items)
                case Union():
                    waiting.extend(shape.branches)
                case Object() if not shape.is_carrier:
                    fits = [(member, self._fits(member)) for member in shape.members]
                    out = [member for member, does in fits if not does]
                    if out:
                        found[id(shape)] = (shape, out)
                    waiting.extend(member.shape for member, does in fits if does)
                case _:
                    pass
        return found

    def _fits(self, member: Member) -> bool:
        unions = 0 if is_tag(member) else self._unions(member.shape)
        if member.optional and _is_one_or_null(self._shapes.seen(member.shape)):
            unions -= 1  # it is left out where it would be null
        cost = _Cost(int(member.optional), unions)
        if cost.optional > self._left.optional or cost.unions > self._left.unions:
            return False
        self._take(cost)
        return True

    def _take(self, cost: _Cost) -> None:
        left = self._left
        self._left = _Cost(left.optional - cost.optional, left.unions - cost.unions)

    def _unions(self, whole: Shape) -> int:
        """The unions of a value, those of the members of objects inside of it not counted.

        Counting ends where there are more than there is room for.
        """
        found = 0
        passed: set[str] = set()
        waiting = [whole]
        while waiting and found <= self._left.unions + 1:
            shape = waiting.pop()
            match shape:
                case Plain():
                    found += len(shape.types) > 1
                case Array():
                    waiting.append(shape.items)
                case Union():
                    found += 1
                    waiting.extend(shape.branches)
                case Ref() if shape.name not in passed:
                    passed.add(shape.name)
                    waiting.append(self._shapes.definitions[shape.name])
                case _:
                    pass
        return found


def _is_one_or_null(shape: Shape) -> bool:
    match shape:
        case Plain():
            return len(shape.types) == 2 and "null" in shape.types
        case Union(branches=(one, other)):
            return any(isinstance(b, Plain) and b.types == {"null"} for b in (one, other))
        case _:
            return False


def _rebuilt(shape: Shape, packed: _Packed) -> Shape:
    match shape:
        case Array():
            return replace(shape, items=_rebuilt(shape.items, packed))
        case Object():
            _, out = packed.get(id(shape), (shape, []))
            names = {member.name for member in out}
            kept = [member for member in shape.members if member.name not in names]
            members = tuple(replace(m, shape=_rebuilt(m.shape, packed)) for m in kept)
            rest = shape.rest or unused(REST_NAME, set(shape.names))
            return replace(
                shape, members=members, rest=rest if out else shape.rest, packed=tuple(out)
            )
        case Union():
            branches = tuple(_rebuilt(branch, packed) for branch in shape.branches)
            return replace(shape, branches=branches, fallback=_rebuilt(shape.fallback, packed))
        case _:
            return shape
