"""Free-form values beside others: texts stand for themselves there, and JSON text has a member.

In a union of `integer` and anything, a string could be a text or JSON text. So scalars travel as
they are, and an object of one member carries the JSON text of all else.
"""

from dataclasses import replace

from pydantic import JsonValue

from services.worker.dialects.objects import unused
from services.worker.dialects.reach import bound_reach
from services.worker.dialects.shape import (
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

CARRIER_NAME = "json_text"
_AS_THEMSELVES = frozenset(["string", "number", "integer", "boolean"])
# Null is carried: beside an optional member that some dialects leave out by writing null.
_CARRIED = frozenset(["object", "array", "null"])
_HINT = (
    "For an object, a list or null. Texts, numbers, true and false are written as themselves, "
    "without this member."
)


def tell_apart(root: Shape, definitions: dict[str, Shape]) -> Shapes:
    """The same shapes, with no string that could be a text as well as JSON text."""
    return _Separation(bound_reach(Shapes(root, definitions))).shapes()


class _Separation:
    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._is_text: dict[int, bool] = {}  # of leaves, which unions share

    def shapes(self) -> Shapes:
        definitions = self._shapes.definitions
        kept = {name: self._rebuilt(shape) for name, shape in definitions.items()}
        return Shapes(self._rebuilt(self._shapes.root), kept)

    def _rebuilt(self, shape: Shape) -> Shape:
        match shape:
            case Array():
                return replace(shape, items=self._rebuilt(shape.items))
            case Object():
                members = tuple(replace(m, shape=self._rebuilt(m.shape)) for m in shape.members)
                return replace(shape, members=members)
            case Union():
                return self._union(shape)
            case _:
                return shape

    def _union(self, union: Union) -> Union:
        leaves = self._shapes.leaves(union)
        branches: list[Shape] = [*union.branches]
        if _is_doubtful(leaves):
            names = {name for leaf in leaves if isinstance(leaf, Object) for name in leaf.names}
            carrier = unused(CARRIER_NAME, names)
            flat = self._flat(union)
            branches = [part for branch in flat for part in self._parts(branch, carrier)]
        return replace(
            union,
            branches=tuple(self._rebuilt(branch) for branch in branches),
            fallback=self._instead(union, leaves),
        )

    def _instead(self, union: Union, leaves: list[Shape]) -> Shape:
        """The fallback; a text that is free there stands for itself, as beside anything typed."""
        text = self._rebuilt(union.fallback)
        if not isinstance(text, Text) or "string" not in text.types:
            return text
        if not any(self._may_be_text(leaf) for leaf in leaves):
            return text
        forms = _two_forms(text, CARRIER_NAME)
        return forms[0] if len(forms) == 1 else replace(union, branches=tuple(forms), fallback=text)

    def _may_be_text(self, leaf: Shape) -> bool:
        if id(leaf) not in self._is_text:
            self._is_text[id(leaf)] = "string" in types_written(leaf)
        return self._is_text[id(leaf)]

    def _flat(self, union: Union) -> list[Shape]:
        """The branches, with those of unions inside that have something free-form."""
        found: list[Shape] = []
        for branch in union.branches:
            if isinstance(branch, Union) and _texts(self._shapes.leaves(branch)):
                found.extend(self._flat(branch))
            else:
                found.append(branch)
        return found

    def _parts(self, branch: Shape, carrier: str) -> list[Shape]:
        """What stands for a branch: itself, or the two forms of what is free."""
        seen = self._shapes.seen(branch)
        return _two_forms(seen, carrier) if isinstance(seen, Text) else [branch]


def _is_doubtful(leaves: list[Shape]) -> bool:
    """Whether a string may be a text as well as JSON text."""
    texts = len(_texts(leaves))
    if not 0 < texts < len(leaves):
        return False  # most unions, so that their leaves are looked at no closer
    return any("string" in types_written(leaf) for leaf in leaves)


def _texts(leaves: list[Shape]) -> list[Text]:
    return [leaf for leaf in leaves if isinstance(leaf, Text)]


def _two_forms(text: Text, name: str) -> list[Shape]:
    scalars: list[JsonValue] = [*sorted(text.types & _AS_THEMSELVES)]
    carried = text.types & _CARRIED
    inner = Member(name, Text(f"{_HINT} {text.words}", carried), optional=False)
    forms: list[Shape] = []
    if scalars:
        forms.append(Plain({"type": scalars[0] if len(scalars) == 1 else scalars}))
    if carried:
        forms.append(Object((inner,), rest=None, is_carrier=True))
    return forms
