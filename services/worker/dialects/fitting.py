"""Finds the branch of a union that a value was written in."""

from pydantic import JsonValue

from services.worker.dialects.choices import same, type_of
from services.worker.dialects.complexity import TooComplexError
from services.worker.dialects.shape import (
    Array,
    JsonObject,
    Member,
    Object,
    Plain,
    Shape,
    Shapes,
    Text,
    Union,
)

STEPS_MAX = 200_000  # some tenths of a second; unions without tags can take many


class Fitting:
    """Looks at one answer; counts its steps."""

    def __init__(self, shapes: Shapes) -> None:
        """No step is taken yet."""
        self._shapes = shapes
        self._steps = 0

    def branch(self, union: Union, value: JsonValue) -> Shape | None:
        """The first branch that the value fits, None if there is none.

        A provider that enforces little may leave members out: such a fit is second best.
        """
        for exact in (True, False):
            for branch in union.branches:
                if self._fits(branch, value, exact=exact):
                    return branch
        return None

    def _fits(self, shape: Shape, value: JsonValue, *, exact: bool) -> bool:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise TooComplexError("an answer that tells by its tags which alternative it is")
        shape = self._shapes.seen(shape)
        match shape, value:
            case (Plain(), _):
                return bool(type_of(value) & shape.types) and _is_choice(shape, value)
            case (Text(), str()):
                return True
            case (Array(), list()):
                return all(self._fits(shape.items, item, exact=exact) for item in value)
            case (Object(), dict()):
                return self._object_fits(shape, value, exact=exact)
            case (Union(), _):
                return any(self._fits(branch, value, exact=exact) for branch in shape.branches)
            case _:
                return False

    def _object_fits(self, shape: Object, value: JsonObject, *, exact: bool) -> bool:
        names = value.keys()
        if (names != shape.names) if exact else not names <= shape.names:
            return False
        return all(self._member_fits(member, value, exact=exact) for member in shape.members)

    def _member_fits(self, member: Member, value: JsonObject, *, exact: bool) -> bool:
        if value.get(member.name) is None and member.optional:
            return True
        if member.name not in value:
            return False
        return self._fits(member.shape, value[member.name], exact=exact)


def _is_choice(shape: Plain, value: JsonValue) -> bool:
    choices = shape.schema.get("enum")
    return not isinstance(choices, list) or same(value) in map(same, choices)
