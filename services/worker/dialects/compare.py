"""Compares shapes: whether two read alike what fits both, and whether anything satisfies both."""

from dataclasses import dataclass
from itertools import combinations, product

from services.worker.dialects.choices import same
from services.worker.dialects.complexity import TooComplexError
from services.worker.dialects.shape import Array, Member, Object, Plain, Shape, Shapes, Text, Union

COMPARISONS_MAX = 200_000  # some tenths of a second

EXCLUSIVE_BRANCHES_MAX = 64  # of more, nobody looks whether they exclude each other

_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Face:
    """What tells an object from others at first sight."""

    names: frozenset[str]
    tags: dict[str, frozenset[str]]

    def tags_differ(self, other: "_Face") -> bool:
        return any(
            not values & other.tags[name]
            for name, values in self.tags.items()
            if name in other.tags
        )


class Comparer:
    """Comparisons of the shapes of one schema, none of them made twice."""

    def __init__(self, shapes: Shapes) -> None:
        """What is given up later is not seen by this comparer."""
        self._shapes = shapes
        self._alike_pairs: set[_Pair] = set()
        self._count = 0
        self._faces: dict[int, _Face] = {}

    def is_clear(self, union: Union) -> bool:
        """Whether all branches that fit a value read it alike."""
        plain = [branch for branch in union.branches if isinstance(branch, Plain)]
        others = [branch for branch in union.branches if not isinstance(branch, Plain)]
        pairs = [*combinations(others, 2), *product(others, plain)]
        return all(self._are_alike(one, other) for one, other in pairs)

    def is_exclusive(self, union: Union) -> bool:
        """Whether no value satisfies two branches, as far as one look can tell."""
        branches = union.branches
        return len(branches) <= EXCLUSIVE_BRANCHES_MAX and all(
            self._exclude(one, other) for one, other in combinations(branches, 2)
        )

    def _are_alike(self, one: Shape, other: Shape) -> bool:
        """Pairs that are being compared further out are taken for alike, as recursion needs.

        They were indeed if nothing inside them was found to differ.
        """
        assumed = set(self._alike_pairs)
        if not self._alike(one, other, assumed):
            return False
        self._alike_pairs = assumed
        return True

    def _alike(self, one: Shape, other: Shape, assumed: set[_Pair]) -> bool:
        one, other = self._shapes.seen(one), self._shapes.seen(other)
        pair = id(one), id(other)
        if one is other or pair in assumed:
            return True
        assumed.add(pair)
        self._count += 1
        if self._count > COMPARISONS_MAX:
            raise TooComplexError("alternatives that a type or a tag tells apart")
        match one, other:
            case (Union(), _):
                return all(self._alike(branch, other, assumed) for branch in one.branches)
            case (_, Union()):
                return all(self._alike(one, branch, assumed) for branch in other.branches)
            case (Text(), Plain() as scalar) | (Plain() as scalar, Text()):
                return "string" not in scalar.types
            case (Array(), Array()):
                return self._alike(one.items, other.items, assumed)
            case (Object(), Object()):
                return self._objects_alike(one, other, assumed)
            case _:
                return True

    def _objects_alike(self, one: Object, other: Object, assumed: set[_Pair]) -> bool:
        # On the wire an object has exactly its names, so that others cannot be taken for it.
        face, other_face = self._face(one), self._face(other)
        if face.names != other_face.names or face.tags_differ(other_face):
            return True
        twins = {member.name: member for member in other.members}
        return one.rest == other.rest and all(
            self._members_alike(member, twins[member.name], assumed) for member in one.members
        )

    def _face(self, shape: Object) -> _Face:
        if id(shape) not in self._faces:
            self._faces[id(shape)] = _face(shape)
        return self._faces[id(shape)]

    def _members_alike(self, one: Member, other: Member, assumed: set[_Pair]) -> bool:
        reads_null = {self._reading_of_null(one), self._reading_of_null(other)}
        if reads_null == {"null", "left out"}:
            return False
        return self._alike(one.shape, other.shape, assumed)

    def _reading_of_null(self, member: Member) -> str:
        if self._shapes.accepts_null(member.shape):
            return "null"
        return "left out" if member.optional else "no answer"

    def _exclude(self, one: Shape, other: Shape) -> bool:
        one, other = self._shapes.seen(one), self._shapes.seen(other)
        match one, other:
            case (Object(), Object()):
                return self._face(one).tags_differ(self._face(other))
            case (Plain(), Plain()):
                return not one.types & other.types or _values_differ(one, other)
            case (Plain() | Array() | Object(), Plain() | Array() | Object()):
                return type(one) is not type(other)
            case _:
                return False


def _face(shape: Object) -> _Face:
    """The members that are always there and say by one of few values which object this is."""
    tags = {
        member.name: frozenset(map(same, choices))
        for member in shape.members
        if not member.optional and isinstance(member.shape, Plain)
        if isinstance(choices := member.shape.schema.get("enum"), list)
    }
    return _Face(shape.names, tags)


def _values_differ(one: Plain, other: Plain) -> bool:
    """Whether both have values to choose from, and none in common."""
    chosen, others = one.schema.get("enum"), other.schema.get("enum")
    if not isinstance(chosen, list) or not isinstance(others, list):
        return False
    return set(map(same, chosen)).isdisjoint(map(same, others))
