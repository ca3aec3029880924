"""Compares shapes: whether two read alike what fits both, and whether anything satisfies both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from services.worker.dialects.choices import same
from services.worker.dialects.complexity import TooComplexError
from services.worker.dialects.shape import Array, Member, Object, Plain, Shape, Shapes, Text, Union

COMPARISONS_MAX = 150_000  # about half a second

EXCLUSIVE_BRANCHES_MAX = 64  # of more, nobody looks whether they exclude each other

_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Face:
    """What tells an object from others at first sight.

    `tags` are the members that are always there and have one of few values.
    """

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
        objects, scalars, others = self._sorted(union)
        pairs: Iterator[tuple[Shape, Shape]] = chain(
            () if self._told_apart(objects) else combinations(objects, 2),
            product([*objects, *scalars], others),
            combinations(others, 2),
        )
        return all(self._are_alike(one, other) for one, other in pairs)

    def is_exclusive(self, union: Union) -> bool:
        """Whether no value satisfies two branches, as far as one look can tell."""
        objects, scalars, others = self._sorted(union)
        if len(scalars) + len(others) > EXCLUSIVE_BRANCHES_MAX:
            return False
        pairs = chain(combinations([*scalars, *others], 2), product(objects, others))
        return self._told_apart(objects) and all(self._exclude(one, other) for one, other in pairs)

    def _sorted(self, union: Union) -> tuple[list[Object], list[Plain], list[Shape]]:
        """The branches by kind: objects, scalars and the rest."""
        branches = [self._shapes.seen(branch) for branch in union.branches]
        objects = [branch for branch in branches if isinstance(branch, Object)]
        scalars = [branch for branch in branches if isinstance(branch, Plain)]
        others: list[Shape] = [b for b in branches if not isinstance(b, Object | Plain)]
        return objects, scalars, others

    def _told_apart(self, objects: Sequence[Object]) -> bool:
        """Whether there is a tag that all objects have and no two share a value of."""
        tags = [self._face(shape).tags for shape in objects]
        common = set(tags[0]).intersection(*tags[1:]) if tags else set()
        return len(objects) < 2 or any(
            len(frozenset().union(*(tag[name] for tag in tags)))
            == sum(len(tag[name]) for tag in tags)
            for name in common
        )

    def _are_alike(self, one: Shape, other: Shape) -> bool:
        """Pairs that are being compared further out are taken for alike, as recursion needs.

        They were indeed if nothing inside them was found to differ.
        """
        assumed: set[_Pair] = set()
        if not self._alike(one, other, assumed):
            return False
        self._alike_pairs |= assumed
        return True

    def _alike(self, one: Shape, other: Shape, assumed: set[_Pair]) -> bool:
        one, other = self._shapes.seen(one), self._shapes.seen(other)
        pair = id(one), id(other)
        if one is other or pair in assumed or pair in self._alike_pairs:
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
            tags = {
                member.name: frozenset(map(same, choices))
                for member in shape.members
                if not member.optional
                and isinstance(value := self._shapes.seen(member.shape), Plain)
                and isinstance(choices := value.schema.get("enum"), list)
            }
            self._faces[id(shape)] = _Face(shape.names, tags)
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
            case (Plain(), Plain()):
                return not _kinds(one) & _kinds(other) or _values_differ(one, other)
            case (Plain() | Array() | Object(), Plain() | Array() | Object()):
                return type(one) is not type(other)
            case _:
                return False


def _kinds(shape: Plain) -> frozenset[str]:
    """The types of a scalar; numbers may be integers too."""
    return shape.types | {"integer"} if "number" in shape.types else shape.types


def _values_differ(one: Plain, other: Plain) -> bool:
    """Whether both have values to choose from, and none in common."""
    chosen, others = one.schema.get("enum"), other.schema.get("enum")
    if not isinstance(chosen, list) or not isinstance(others, list):
        return False
    return set(map(same, chosen)).isdisjoint(map(same, others))
