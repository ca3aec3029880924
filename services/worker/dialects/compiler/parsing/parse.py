"""Reads a resolved schema into shapes: references are followed, conjunctions merged."""

from collections import deque
from collections.abc import Sequence

from pydantic import JsonValue

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema
from services.worker.dialects.compiler.parsing.bounds import NUMBER_BOUNDS
from services.worker.dialects.compiler.parsing.choices import (
    choices,
    is_looser,
    one_of,
    type_of,
    types_of,
)
from services.worker.dialects.compiler.parsing.cycles import break_cycles
from services.worker.dialects.compiler.parsing.freeform import (
    as_itself,
    as_text,
    one_as_text,
    one_text,
)
from services.worker.dialects.compiler.parsing.lists import read_list
from services.worker.dialects.compiler.parsing.objects import read_object
from services.worker.dialects.compiler.parsing.scalars import description, plain
from services.worker.dialects.compiler.parsing.separate_texts import separate_texts
from services.worker.dialects.compiler.parsing.subschemas import (
    UNIONS,
    Key,
    Node,
    Subschema,
    Subschemas,
    branches_of,
    has_any,
    key_of,
    referred,
    structures,
    subschemas_of,
    without_descriptions,
    without_unions,
)
from services.worker.dialects.compiler.shapes.complexity import ComplexityAllowance
from services.worker.dialects.compiler.shapes.describe import described, joined
from services.worker.dialects.compiler.shapes.names import ShapeNames
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import (
    TYPES,
    Never,
    Plain,
    Ref,
    Shape,
    Shapes,
    Text,
    Union,
)

# Merging can multiply a schema. The guard admits 5,000 parts, and real schemas have some hundreds.
READS_MAX = 24_000
_INLINE_DEPTH_MAX = 24  # deeper parts become definitions, so that reading never recurses far
_STRUCTURE = ("properties", "items", "prefixItems", "enum", "const", *UNIONS)
_BY_TYPE = {
    "string": ("contentEncoding", "contentMediaType"),
    "array": ("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    "object": (
        *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
    ),
}
_OF_VALUES = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": tuple(sorted(NUMBER_BOUNDS)),
    "array": ("minItems", "maxItems", "items", "prefixItems"),
    "object": ("required", "properties", "patternProperties", "additionalProperties"),
}
_ALWAYS = ("not", "if")
_NOTHING_IF_FALSE = {"not", "uniqueItems"}


def note_dropped_keywords(
    subschemas: Subschemas, types: frozenset[str] | None, notes: Notes
) -> None:
    """Name each rule of `subschemas` that the validator alone will check."""
    for atom in subschemas:
        for keyword in _ALWAYS:
            _note(atom, keyword, notes)
        for kind, keywords in _BY_TYPE.items():
            if types is None or kind in types:
                for keyword in keywords:
                    _note(atom, keyword, notes)


def note_beside_choices(subschemas: Subschemas, values: Sequence[JsonValue], notes: Notes) -> None:
    """Name the rules that some of the values to choose from may break: they are not sorted out."""
    types = frozenset[str]().union(*map(type_of, values))
    for atom in subschemas:
        for kind, keywords in _OF_VALUES.items():
            if kind in types:
                for keyword in keywords:
                    _note(atom, keyword, notes)


def _note(atom: Subschema, keyword: str, notes: Notes) -> None:
    value = atom.get(keyword)
    if value is not None and not (value is False and keyword in _NOTHING_IF_FALSE):
        notes.not_enforced(keyword, atom.path)


class SchemaParser:
    """Reads one schema. Notes are collected on the way."""

    def __init__(self, schema: AnySchema, rules: Rules) -> None:
        """The schema has passed the guard, or is ours."""
        self.notes = Notes()
        self._rules = rules
        self.document = Document(schema)
        self._names = ShapeNames()
        self._named: dict[Key, str] = {}
        self._definitions: dict[str, Shape] = {}
        self._waiting: deque[tuple[str, Subschemas]] = deque()
        self._open: list[Key] = []
        self._work = ComplexityAllowance(
            READS_MAX, "fewer alternatives inside one another (anyOf, allOf)"
        )

    def shapes(self) -> Shapes:
        """The whole schema as shapes. Raises TooComplexError."""
        root = self.shape_of([Node("", self.document.root)])
        while self._waiting:
            name, subschemas = self._waiting.popleft()
            self._definitions[name] = self._inside(subschemas)
        for name in self._definitions:
            if self._goes_round(name):
                self._definitions[name] = self._free(())
        return separate_texts(*break_cycles(root, self._definitions, self._rules, self.notes))

    def _goes_round(self, name: str) -> bool:
        """Whether a definition says no more than that it is another one, which says the same."""
        passed: set[str] = set()
        while name not in passed:
            passed.add(name)
            shape = self._definitions[name]
            if not isinstance(shape, Ref):
                return False
            name = shape.name
        return True

    def shape_of(self, parts: Sequence[Node | Subschema]) -> Shape:
        """The shape of what satisfies all of `parts`."""
        self._work.take(1 + len(parts))
        (first, *others) = parts or [Node("", schema=True)]
        found = None
        if isinstance(first, Node) and not others:
            found = referred(self.document, first, self._work)
        target, texts = found or (None, [])
        subschemas = subschemas_of(self.document, parts if target is None else [target], self._work)
        if subschemas is None:
            return Never()
        self._work.take(sum(atom.effort for atom in subschemas))
        if subschemas and (
            target or key_of(subschemas) in self._open or len(self._open) >= _INLINE_DEPTH_MAX
        ):
            ref = self._defined(subschemas, target.path if target else subschemas[0].path)
            return described(ref, joined(*texts))
        return described(self._inside(subschemas), joined(*texts))

    def _defined(self, subschemas: Subschemas, path: str) -> Ref:
        key = key_of(subschemas)
        if key not in self._named:
            self._named[key] = self._names.new(path)
            self._waiting.append((self._named[key], subschemas))
        return Ref(self._named[key])

    def _inside(self, subschemas: Subschemas) -> Shape:
        self._open.append(key_of(subschemas))
        unions = [(atom, kw) for atom in subschemas for kw in UNIONS if branches_of(atom, kw)]
        shape = self._union(subschemas, unions) if unions else self._single(subschemas)
        self._open.pop()
        return shape

    def _union(self, subschemas: Subschemas, unions: list[tuple[Subschema, str]]) -> Shape:
        """One union as branches, each merged with all else that holds; further ones are noted."""
        text = description(subschemas)
        base = without_unions(subschemas)
        chosen = next((found for found in unions if not base or self._adds(*found, base)), None)
        for atom, keyword in unions:
            if (atom, keyword) != chosen:
                self.notes.not_enforced(keyword, atom.path)
        if chosen is None:
            return described(self._single(base), text)
        atom, keyword = chosen
        undescribed = without_descriptions(base)  # the union says it once
        branches = [
            self.shape_of([*undescribed, Node(f"{atom.path}/{keyword}/{i}", schema)])
            for i, schema in branches_of(atom, keyword)
        ]
        fallback = self._single(base) if has_any(base, _STRUCTURE) else self._free(subschemas)
        whole = self._one_of(branches, described(fallback, text), keyword, atom.path)
        return described(whole, text)

    def _one_of(self, shapes: Sequence[Shape], fallback: Shape, keyword: str, path: str) -> Shape:
        itself = self._named.get(self._open[-1])
        possible = [
            shape
            for shape in one_text(shapes)
            if not isinstance(shape, Never)
            and not (isinstance(shape, Ref) and shape.name == itself)
        ]
        match possible:
            case []:
                return Never()
            case [only]:
                return only
            case _:
                return Union(tuple(possible), fallback, keyword, path)

    def _adds(self, atom: Subschema, keyword: str, base: Subschemas) -> bool:
        """Whether each branch says what an answer looks like, and not just what it must have."""
        wanted = _STRUCTURE if has_any(base, ("type",)) else (*_STRUCTURE, "type")
        branches = (
            subschemas_of(self.document, [Node("", schema)], self._work)
            for _, schema in branches_of(atom, keyword)
        )
        return all(branch is None or has_any(branch, wanted) for branch in branches)

    def _single(self, subschemas: Subschemas) -> Shape:
        """The shape of what satisfies `subschemas`, whose unions are dealt with or left out."""
        types = types_of(subschemas)
        note_dropped_keywords(subschemas, types, self.notes)
        values = choices(subschemas)
        if values is not None:
            return self._chosen(values, subschemas, types)
        kinds = self._kinds(subschemas, types)
        undescribed = without_descriptions(subschemas) if len(kinds) > 1 else subschemas
        shapes = [self._typed(kind, undescribed) for kind in kinds]
        path = subschemas[0].path if subschemas else ""
        return described(
            self._one_of(shapes, self._free(subschemas), "type", path), description(subschemas)
        )

    def _chosen(
        self, values: list[JsonValue], subschemas: Subschemas, types: frozenset[str] | None
    ) -> Shape:
        """One of `values`; scalars as they are, so that a text is none of the objects or lists."""
        path = subschemas[0].path
        note_beside_choices(subschemas, values, self.notes)
        fitting = [value for value in values if types is None or type_of(value) & types]
        is_packed = () if self._rules.verbatim else (dict, list)
        plain_ones = [value for value in fitting if not isinstance(value, is_packed)]
        chosen: list[Shape] = [*(listed := one_of(plain_ones, self._rules))]
        if is_looser(listed, plain_ones):
            self.notes.not_enforced("enum", path)
        if len(plain_ones) < len(fitting):
            self.notes.as_text(path)
            chosen.append(one_as_text([v for v in fitting if isinstance(v, is_packed)]))
        return described(
            self._one_of(chosen, self._free(subschemas), "enum", path), description(subschemas)
        )

    def _typed(self, kind: str, subschemas: Subschemas) -> Shape:
        free = self._free(subschemas, None if kind == "any" else frozenset([kind]))
        match kind:
            case "any":
                shape: Shape = free
            case "object":
                shape = read_object(subschemas, self.shape_of, free, self._rules, self.notes)
            case "array":
                shape = read_list(subschemas, self.shape_of, free, self._rules, self.notes)
            case _:
                shape = plain(kind, subschemas, self._rules, self.notes)
        if isinstance(shape, Text) and any(atom.rules for atom in subschemas):
            self.notes.as_text(subschemas[0].path)
        return shape

    def _free(self, subschemas: Subschemas, types: frozenset[str] | None = None) -> Text | Plain:
        """The shape of what satisfies `subschemas`, and is of `types` if they are known."""
        return as_itself(subschemas) if self._rules.verbatim else as_text(subschemas, types)

    def _kinds(self, subschemas: Subschemas, types: frozenset[str] | None) -> list[str]:
        """The types of value to make a shape for; "any" stands for those nothing is said of."""
        if types is not None:
            return sorted(types)
        if self._rules.verbatim and any(atom.rules for atom in subschemas):
            return list(TYPES)
        return structures(subschemas)
