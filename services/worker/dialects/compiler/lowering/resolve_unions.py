"""Replaces unions whose branches could read one answer in two ways by their fallback."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from pydantic import JsonValue

from services.worker.dialects.compiler.parsing.choices import same
from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.reach import REMEDY, bound_reach, unions_in
from services.worker.dialects.compiler.shapes.shape import (
    TYPES,
    Array,
    Member,
    Object,
    Plain,
    Shape,
    Shapes,
    Text,
    Union,
    types_written,
)

_ROUNDS_MAX = 16
COMPARISONS_MAX = 80_000  # some tenths of a second

EXCLUSIVE_BRANCHES_MAX = 64  # more are not compared with each other

_Shapes = tuple[Shape, Shape]


@dataclass(frozen=True, slots=True)
class _Signature:
    """The members that distinguish an object from others at first sight.

    `required` are the members that are always there, `tags` those of them that have one of few
    values.
    """

    names: frozenset[str]
    required: frozenset[str]
    tags: dict[str, frozenset[str]]

    def may_be(self, other: "_Signature") -> bool:
        """Whether the members that there are can be those of either object."""
        return self.required <= other.names and other.required <= self.names

    def tags_differ(self, other: "_Signature") -> bool:
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
        self._alike: set[tuple[int, int]] = set()
        self._signatures: dict[int, _Signature] = {}

    def is_clear(self, union: Union) -> bool:
        """Whether all branches that fit a value read it alike, and there is one at all."""
        objects, scalars, others = self._sorted(union)
        if not (objects or scalars or others):
            return False
        pairs: Iterator[_Shapes] = chain(
            () if self._distinguishable(objects) else combinations(objects, 2),
            product([*objects, *scalars], others),
            combinations(others, 2),
        )
        return all(self._are_alike(pair) for pair in pairs)

    def is_exclusive(self, union: Union) -> bool:
        """Whether no value satisfies two branches, as far as one look shows."""
        objects, scalars, others = self._sorted(union)
        if len(scalars) + len(others) > EXCLUSIVE_BRANCHES_MAX:
            return False
        rest = [*scalars, *others]
        pairs = chain(combinations(rest, 2), product(objects, rest))
        return self._distinguishable(objects) and all(_exclude(one, other) for one, other in pairs)

    def _sorted(self, union: Union) -> tuple[list[Object], list[Plain], list[Shape]]:
        """The possible meanings by kind: objects, scalars and the rest."""
        leaves = self._shapes.leaves(union)
        objects = [leaf for leaf in leaves if isinstance(leaf, Object)]
        scalars = [leaf for leaf in leaves if isinstance(leaf, Plain)]
        others: list[Shape] = [leaf for leaf in leaves if not isinstance(leaf, Object | Plain)]
        return objects, scalars, others

    def _distinguishable(self, objects: Sequence[Object]) -> bool:
        """Whether there is a tag that all objects have and no two share a value of."""
        tags = [self._signature(shape).tags for shape in objects]
        common = set(tags[0]).intersection(*tags[1:]) if tags else set()
        return len(objects) < 2 or any(
            len(frozenset().union(*(tag[name] for tag in tags)))
            == sum(len(tag[name]) for tag in tags)
            for name in common
        )

    def _are_alike(self, pair: _Shapes) -> bool:
        """Follow two shapes in step: they are alike if nothing on the way differs."""
        assumed: set[tuple[int, int]] = set()
        waiting = [pair]
        while waiting:
            one, other = map(self._shapes.seen, waiting.pop())
            ids = id(one), id(other)
            if one is other or ids in assumed or ids in self._alike:
                continue
            assumed.add(ids)
            if len(assumed) + len(self._alike) > COMPARISONS_MAX:
                raise TooComplexError("fewer alternatives, each told apart by its type or by a tag")
            inside = self._inside(one, other)
            if inside is None:
                return False
            waiting.extend(inside)
        self._alike |= assumed
        return True

    def _inside(self, one: Shape, other: Shape) -> Sequence[_Shapes] | None:
        """The pairs that must be alike for these two to be; None if they differ themselves."""
        match one, other:
            case (Union(), _) | (_, Union()):
                return list(product(self._shapes.leaves(one), self._shapes.leaves(other)))
            case (Text(), Text()):
                return () if one.types == other.types else None
            case (Text() as text, other) | (other, Text() as text):
                # A string could be itself or JSON text; what is free beside others has a carrier.
                return None if "string" in text.types | types_written(other) else ()
            case (Array(), Array()):
                return [(one.items, other.items)]
            case (Object(), Object()):
                return self._inside_objects(one, other)
            case _:
                return ()

    def _inside_objects(self, one: Object, other: Object) -> Sequence[_Shapes] | None:
        # On the wire an object has no names but its own, so that others cannot be taken for it.
        signature, other_signature = self._signature(one), self._signature(other)
        if not signature.may_be(other_signature) or signature.tags_differ(other_signature):
            return ()
        theirs = {member.name: member for member in other.members}
        shared = [(m, theirs[m.name]) for m in one.members if m.name in theirs]
        if one.rest != other.rest or any(self._null_differs(*pair) for pair in shared):
            return None
        return [(member.shape, other_member.shape) for member, other_member in shared]

    def _null_differs(self, one: Member, other: Member) -> bool:
        """Whether null is an answer to one, and says "left out" to the other."""
        accepted = [self._shapes.accepts_null(member.shape) for member in (one, other)]
        return (accepted[0] and not accepted[1] and other.optional) or (
            accepted[1] and not accepted[0] and one.optional
        )

    def _signature(self, shape: Object) -> _Signature:
        if id(shape) not in self._signatures:
            tags = {
                member.name: frozenset(_key(value, choice) for choice in choices)
                for member in shape.members
                if not member.optional
                and isinstance(value := self._shapes.seen(member.shape), Plain)
                and isinstance(choices := value.schema.get("enum"), list)
            }
            self._signatures[id(shape)] = _Signature(shape.names, shape.required, tags)
        return self._signatures[id(shape)]


def _key(shape: Plain, choice: JsonValue) -> str:
    return same(choice).casefold() if shape.any_case else same(choice)


def _exclude(one: Shape, other: Shape) -> bool:
    if not _kinds(one) & _kinds(other):
        return True
    return isinstance(one, Plain) and isinstance(other, Plain) and _values_differ(one, other)


def _kinds(shape: Shape) -> frozenset[str]:
    """The types of what fits; numbers may be integers too."""
    match shape:
        case Plain():
            return shape.types | {"integer"} if "number" in shape.types else shape.types
        case Array():
            return frozenset(["array"])
        case Object():
            return frozenset(["object"])
        case _:
            return frozenset([*TYPES, "integer"])


def _values_differ(one: Plain, other: Plain) -> bool:
    """Whether both have values to choose from, and none in common."""
    chosen, others = one.schema.get("enum"), other.schema.get("enum")
    if not isinstance(chosen, list) or not isinstance(others, list):
        return False
    return {_key(one, value) for value in chosen}.isdisjoint(_key(one, v) for v in others)


def resolve_unions(shapes: Shapes, notes: Notes, *, verbatim: bool) -> None:
    """Keep only unions where all branches that fit an answer read it alike.

    A union that is given up changes what is around it, so this goes on until nothing changes.
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
