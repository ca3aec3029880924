"""Free-form values where a text may be right: a text is that text, and JSON text has a member.

A string could be a text or JSON text there. So scalars travel as they are, and an object of one
member carries the JSON text of all else. Where no text can be right, a string is JSON text.
"""

from dataclasses import replace

from pydantic import JsonValue

from services.worker.dialects.compiler.parsing.objects import unused
from services.worker.dialects.compiler.shapes.describe import described
from services.worker.dialects.compiler.shapes.reach import bound_reach
from services.worker.dialects.compiler.shapes.shape import (
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
_KINDS = {"object": "an object", "array": "a list", "null": "null"}
_HINT = "Texts, numbers, true and false are written as themselves, without this member."


def separate_texts(root: Shape, definitions: dict[str, Shape]) -> Shapes:
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
            case Text():
                return _apart(shape)
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
        if _has_text(leaves) and any(self._may_be_text(leaf) for leaf in leaves):
            names = {name for leaf in leaves if isinstance(leaf, Object) for name in leaf.names}
            carrier = unused(CARRIER_NAME, names)
            flat = self._flat(union)
            branches = [part for branch in flat for part in self._parts(branch, carrier)]
        return replace(
            union,
            branches=tuple(self._rebuilt(branch) for branch in branches),
            fallback=self._rebuilt(self._instead(union, leaves)),
        )

    def _instead(self, union: Union, leaves: list[Shape]) -> Shape:
        """The fallback; JSON text only of the types that the union is of."""
        types = frozenset[str]().union(*map(types_written, leaves))
        if not isinstance(union.fallback, Text) or not types:
            return union.fallback
        return replace(union.fallback, types=types)

    def _may_be_text(self, leaf: Shape) -> bool:
        if id(leaf) not in self._is_text:
            self._is_text[id(leaf)] = "string" in types_written(leaf)
        return self._is_text[id(leaf)]

    def _flat(self, union: Union) -> list[Shape]:
        """The branches, with those of unions inside that have something free-form."""
        found: list[Shape] = []
        for branch in union.branches:
            if isinstance(branch, Union) and _has_text(self._shapes.leaves(branch)):
                found.extend(self._flat(branch))
            else:
                found.append(branch)
        return found

    def _parts(self, branch: Shape, carrier: str) -> list[Shape]:
        """The replacement of a branch: itself, or the two forms of what is free."""
        seen = self._shapes.seen(branch)
        return _two_forms(seen, carrier) if isinstance(seen, Text) else [branch]


def _has_text(leaves: list[Shape]) -> bool:
    return any(isinstance(leaf, Text) for leaf in leaves)


def _apart(text: Text) -> Shape:
    """The two forms of what is free, where a text may be right."""
    if "string" not in text.types:
        return text
    forms = _two_forms(replace(text, description=""), CARRIER_NAME)
    whole = forms[0] if len(forms) == 1 else Union(tuple(forms), text, "type", "")
    return described(whole, text.description)


def _two_forms(text: Text, name: str) -> list[Shape]:
    scalars: list[JsonValue] = [*sorted(text.types & _AS_THEMSELVES)]
    carried = text.types & _KINDS.keys()
    forms: list[Shape] = []
    if scalars:
        forms.append(Plain({"type": scalars[0] if len(scalars) == 1 else scalars}))
    if carried:
        kinds = " or ".join(words for kind, words in _KINDS.items() if kind in carried)
        words = f"For {kinds}. {_HINT} {text.words}"
        inner = Member(name, Text(words, carried), optional=False)
        forms.append(Object((inner,), None, text.description, is_carrier=True))
    return forms
