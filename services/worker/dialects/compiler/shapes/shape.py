"""The shape of an answer on its way through a provider: a schema without ambiguity.

A shape is never narrower than the schema it was read from: each valid answer can be written in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
TYPES = ("array", "boolean", "null", "number", "object", "string")


@dataclass(frozen=True, eq=False)
class Plain:
    """A value that travels as it is: a scalar, one of a few, or where a provider lets it, anything.

    `schema` is what the provider gets.
    """

    schema: JsonObject
    any_case: bool = False  # of values to choose from: a provider may mistake "a" for "A"

    @cached_property
    def types(self) -> frozenset[str]:
        types = self.schema["type"]
        return frozenset([types] if isinstance(types, str) else types)  # type: ignore[arg-type]

    @property
    def is_anything(self) -> bool:
        return self.types == frozenset(TYPES) and "enum" not in self.schema


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Any value of `types`; it travels as JSON text inside a string. `words` say so."""

    words: str
    types: frozenset[str] = frozenset(TYPES)
    description: str = ""

    @property
    def hint(self) -> str:
        """All that is said of the place."""
        return f"{self.description}\n{self.words}".lstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Never:
    """Nothing: no answer can be valid here."""


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Items of one shape. `sizes` holds `minItems` and `maxItems`."""

    items: "Shape"
    sizes: JsonObject
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A named member of an object."""

    name: str
    shape: "Shape"
    optional: bool


@dataclass(frozen=True, eq=False)
class Object:
    """Named members; `rest` names the one that carries all others as JSON text, if there may be.

    `others` is the shape of members without a name of their own, where such travel as themselves.
    An optional member without a value is left out where `may_omit`, else it travels as null.
    `packed` are members that a provider has no room for: they travel in `rest`.
    `is_carrier`: it stands for the value of its one member, which no scalar can be mistaken for.
    """

    members: tuple[Member, ...]
    rest: str | None
    description: str = ""
    may_omit: bool = False
    packed: tuple[Member, ...] = ()
    others: "Shape" = Never()
    is_carrier: bool = False

    @cached_property
    def by_name(self) -> Mapping[str, Member]:
        return {member.name: member for member in self.members}

    @cached_property
    def names(self) -> frozenset[str]:
        """All members that this object may have on the wire."""
        return self._with_rest(self.members)

    @cached_property
    def required(self) -> frozenset[str]:
        """Those of them that are always there."""
        optional = self.may_omit
        return self._with_rest([m for m in self.members if not (optional and m.optional)])

    def _with_rest(self, members: Sequence[Member]) -> frozenset[str]:
        named = frozenset(member.name for member in members)
        return named if self.rest is None else named | {self.rest}


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """One of several shapes.

    `fallback` is used where a value does not say by itself which of them it was written in.
    """

    branches: tuple["Shape", ...]
    fallback: "Shape"
    keyword: str
    path: str
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """A shape that is defined elsewhere, under `name`."""

    name: str
    description: str = ""


Shape = Plain | Text | Array | Object | Union | Ref | Never


def types_written(leaf: Shape) -> frozenset[str]:
    """The JSON types of the values that a shape stands for; all of them where it is not a leaf."""
    match leaf:
        case Plain() | Text():
            return leaf.types
        case Array():
            return frozenset(["array"])
        case Object():
            inner = leaf.members[0].shape if leaf.is_carrier else None
            return frozenset(["object"]) if inner is None else types_written(inner)
        case Never():
            return frozenset()
        case Union() | Ref():
            return frozenset(TYPES)


class Shapes:
    """The shape of a whole schema: its root, its definitions, and which unions were given up."""

    def __init__(self, root: Shape, definitions: dict[str, Shape]) -> None:
        """No union is given up yet."""
        self.root = root
        self.definitions = definitions
        # By the shapes themselves, since their ids are others in another process.
        self._given_up: set[Union] = set()
        self._nullable: dict[Shape, bool] = {}
        self._leaves: dict[Shape, list[Shape]] = {}  # long chains of unions share them

    def seen(self, shape: Shape) -> Shape:
        """What really is there: the end of references, and the fallback of a given-up union."""
        while isinstance(shape, Ref | Union):
            if isinstance(shape, Ref):
                shape = self.definitions[shape.name]
            elif shape in self._given_up:
                shape = shape.fallback
            else:
                break
        return shape

    def leaves(self, shape: Shape) -> list[Shape]:
        """The shapes that a value may have here, unions in unions resolved; circles add nothing."""
        if shape not in self._leaves:
            self._leaves[shape] = [
                here for here in self._within(shape) if not isinstance(here, Union)
            ]
        return self._leaves[shape]

    def is_circular(self, union: Union) -> bool:
        """Whether a union is one of its own branches, or of theirs."""
        return union in self._within(*union.branches)

    def accepts_null(self, shape: Shape) -> bool:
        """Whether null is an answer here, and not just a sign for "left out"."""
        shape = self.seen(shape)
        if shape not in self._nullable:
            leaves = self.leaves(shape)
            self._nullable[shape] = any(
                isinstance(leaf, Plain) and "null" in leaf.types for leaf in leaves
            )
        return self._nullable[shape]

    def use_fallback(self, union: Union) -> None:
        """Take the fallback of `union` from now on."""
        self._given_up.add(union)
        self._nullable.clear()
        self._leaves.clear()

    def starting_at(self, root: Shape) -> "Shapes":
        """The same shapes seen from another root."""
        other = Shapes(root, self.definitions)
        other._given_up = self._given_up
        return other

    def _within(self, *shapes: Shape) -> list[Shape]:
        found: dict[Shape, None] = {}
        waiting = list(reversed(shapes))
        while waiting:
            here = waiting.pop()
            if isinstance(here, Ref | Union):
                here = self.seen(here)
            if here not in found:
                found[here] = None
                if isinstance(here, Union):
                    waiting.extend(reversed(here.branches))
        return list(found)
