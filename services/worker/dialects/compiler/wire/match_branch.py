"""Finds the branch of a union that a value was written in."""

from pydantic import JsonValue

from services.worker.core.guard.effort import spend
from services.worker.dialects.compiler.parsing.choices import picked, same, type_of
from services.worker.dialects.compiler.shapes.complexity import TooComplexError
from services.worker.dialects.compiler.shapes.shape import (
    Array,
    JsonObject,
    Object,
    Plain,
    Shape,
    Shapes,
    Text,
    Union,
)

STEPS_MAX = 200_000  # some tenths of a second; unions without tags can take many
STEP_NS = 3_000
_STEPS_AT_ONCE = 500  # are paid for together


class BranchMatcher:
    """Looks at one answer; counts its steps."""

    def __init__(self, shapes: Shapes) -> None:
        """No step is taken yet."""
        self._shapes = shapes
        self._steps = 0
        self._choices: dict[int, frozenset[str]] = {}
        self._leaves: dict[int, list[Shape]] = {}

    def leaf(self, union: Union, value: JsonValue) -> Shape | None:
        """The first shape in a union that the value fits; None if there is none or no need.

        A provider that enforces little may leave members out, or mistake the case of a value to
        choose from: such a fit is second best.
        """
        leaves = self._leaves_of(union)
        if all(isinstance(leaf, Plain) and not leaf.any_case for leaf in leaves):
            return None  # all scalars travel as they are
        exactly = self._first(leaves, value, exact=True)
        return exactly or self._first(leaves, value, exact=False)

    def carriers(self, union: Union) -> list[tuple[str, str]]:
        """The members that carry JSON text beside scalars, each with what is said of it."""
        return [
            (member.name, member.shape.hint)
            for leaf in self._leaves_of(union)
            if isinstance(leaf, Object) and leaf.is_carrier
            for member in leaf.members
            if isinstance(member.shape, Text)
        ]

    def _leaves_of(self, union: Union) -> list[Shape]:
        if id(union) not in self._leaves:
            self._leaves[id(union)] = self._shapes.leaves(union)
        return self._leaves[id(union)]

    # A loop where `any` would do: a level of an answer may cost few frames of the stack only.

    def _first(self, leaves: list[Shape], value: JsonValue, *, exact: bool) -> Shape | None:
        for leaf in leaves:
            if self._fits(leaf, value, exact=exact):
                return leaf
        return None

    def _fits(self, shape: Shape, value: JsonValue, *, exact: bool) -> bool:
        self._steps += 1
        if self._steps % _STEPS_AT_ONCE == 0:
            spend(_STEPS_AT_ONCE * STEP_NS)
        if self._steps > STEPS_MAX:
            raise TooComplexError("an answer that tells by its tags which alternative it is")
        shape = self._shapes.seen(shape)
        match shape, value:
            case (Plain(), _):
                meant = picked(shape, value) if not exact and isinstance(value, str) else value
                return bool(type_of(meant) & shape.types) and self._is_choice(shape, meant)
            case (Text(), str()):
                return True
            case (Union(), _):
                return self._first(self._leaves_of(shape), value, exact=exact) is not None
            case (Array(), list()):
                return all(self._fits(shape.items, item, exact=exact) for item in value)
            case (Object(), dict()):
                return self._object_fits(shape, value, exact=exact)
            case _:
                return False

    def _object_fits(self, shape: Object, value: JsonObject, *, exact: bool) -> bool:
        names = value.keys()
        if not names <= shape.names or (exact and not shape.required <= names):
            return False
        for member in shape.members:
            if value.get(member.name) is None and member.optional:
                continue
            if member.name not in names:
                return False
            if not self._fits(member.shape, value[member.name], exact=exact):
                return False
        return True

    def _is_choice(self, shape: Plain, value: JsonValue) -> bool:
        choices = shape.schema.get("enum")
        if not isinstance(choices, list):
            return True
        if id(shape) not in self._choices:
            self._choices[id(shape)] = frozenset(map(same, choices))
        return same(value) in self._choices[id(shape)]
