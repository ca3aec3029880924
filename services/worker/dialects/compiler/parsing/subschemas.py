"""Takes a schema apart into plain schemas that must all hold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, Draft, JsonObject, reference
from services.worker.dialects.compiler.shapes.complexity import ComplexityAllowance

_WORDS = ["title", "description", "default", "examples", "example", "$comment"]
_MARKS = ["deprecated", "readOnly", "writeOnly", "discriminator", "$schema", "$vocabulary"]
_PLACES = ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions"]
ANNOTATIONS = frozenset([*_WORDS, *_MARKS, *_PLACES])
REFERENCES = frozenset(["$ref", "allOf"])
UNIONS = ("anyOf", "oneOf")
_SINCE = {"const": Draft.D6, "prefixItems": Draft.D2020}  # unknown keywords mean nothing

ENTRIES_PER_READ = 8  # members, values or characters of a pattern: as slow as one more schema


@dataclass(frozen=True, slots=True)
class Node:
    """A schema and the JSON pointer to it."""

    path: str
    schema: AnySchema


@dataclass(frozen=True, slots=True)
class Subschema:
    """A schema object without its `$ref`, `allOf` and the keywords in `without`."""

    path: str
    schema: JsonObject
    draft: Draft
    without: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[int, frozenset[str]]:
        """The same for the same part of the same document."""
        return id(self.schema), self.without

    def get(self, keyword: str) -> JsonValue:
        """The value of a keyword, None if the atom lacks it or its draft does not know it."""
        known = _SINCE.get(keyword, Draft.D4) <= self.draft
        return self.schema.get(keyword) if known and keyword not in self.without else None

    def leave_out(self, keywords: frozenset[str]) -> "Subschema":
        """The atom as if it did not have `keywords`."""
        return replace(self, without=self.without | keywords)

    @property
    def effort(self) -> int:
        """What the schema says itself takes time each time that it is read."""
        entries = sum(len(v) for v in self.schema.values() if isinstance(v, list | dict))
        pattern = self.schema.get("pattern")
        chars = len(pattern) if isinstance(pattern, str) else 0
        return (entries + chars) // ENTRIES_PER_READ

    @property
    def rules(self) -> set[str]:
        """The keywords that rule something out."""
        return self.schema.keys() - ANNOTATIONS - REFERENCES - self.without


Subschemas = tuple[Subschema, ...]
Key = frozenset[tuple[int, frozenset[str]]]


def referred(
    document: Document, node: Node, work: ComplexityAllowance
) -> tuple[Node, list[str]] | None:
    """The schema that a node merely points to, by `$ref` or by `allOf` of one.

    With the descriptions on the way there. None if the node says more itself, and where references
    go round in a circle.
    """
    texts: list[str] = []
    seen: set[int] = set()
    through_ref = False
    while isinstance(node.schema, dict) and id(node.schema) not in seen:
        seen.add(id(node.schema))
        work.take(1)
        deeper = _deeper(document, node.path, node.schema)
        if len(deeper) != 1 or _says_more(document, node.schema):
            return (node, texts) if through_ref else None
        texts.extend(_words(node.schema))
        through_ref = through_ref or reference(node.schema) is not None
        node = deeper[0]
    return (node, texts) if through_ref and isinstance(node.schema, bool) else None


def _words(schema: JsonObject) -> list[str]:
    text = schema.get("description")
    return [text] if isinstance(text, str) else []


def _says_more(document: Document, schema: JsonObject) -> bool:
    return not document.ignores_siblings(schema) and not schema.keys() <= ANNOTATIONS | REFERENCES


def subschemas_of(
    document: Document, parts: Sequence[Node | Subschema], work: ComplexityAllowance
) -> Subschemas | None:
    """All that must hold where all of `parts` must; None if nothing can satisfy it.

    References and `allOf` are followed, each schema once, so that circles end.
    """
    found: dict[tuple[int, frozenset[str]], Subschema] = {}
    waiting = list(reversed(parts))
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        work.take(1)
        if isinstance(part, Subschema):
            found.setdefault(part.key, part)
            continue
        if part.schema is False:
            return None
        if part.schema is True or id(part.schema) in seen:
            continue
        seen.add(id(part.schema))
        atom = Subschema(part.path, part.schema, document.draft)
        if _says_more(document, part.schema):
            found.setdefault(atom.key, atom)
        elif _words(part.schema):
            words = atom.leave_out(frozenset(part.schema) - {"description"})
            found.setdefault(words.key, words)
        waiting.extend(reversed(_deeper(document, part.path, part.schema)))
    return tuple(found.values())


def _deeper(document: Document, path: str, schema: JsonObject) -> list[Node]:
    nodes: list[Node] = []
    ref = reference(schema)
    target = None if ref is None else document.target(ref)
    if ref is not None and target is not None:
        nodes.append(Node(ref.removeprefix("#"), target))
    if document.ignores_siblings(schema):
        return nodes
    all_of = schema.get("allOf")
    if isinstance(all_of, list):
        nodes.extend(Node(f"{path}/allOf/{i}", part) for i, part in schemas_in(all_of))
    return nodes


def schemas_in(values: Iterable[JsonValue]) -> list[tuple[int, AnySchema]]:
    """The schemas of a list with their indices."""
    return [(i, value) for i, value in enumerate(values) if isinstance(value, dict | bool)]


def structures(subschemas: Subschemas) -> list[str]:
    """The structures that are spoken of, and "any" for all that is not."""
    objects = ["object"] if has_any(subschemas, ("properties", "required")) else []
    lists = ["array"] if has_any(subschemas, ("items", "prefixItems")) else []
    # Rules on objects or lists bind only these: any other value is allowed beside them.
    return [*objects, *lists, "any"]


def key_of(subschemas: Subschemas) -> Key:
    """The same for the same parts of the same document, in any order."""
    return frozenset(atom.key for atom in subschemas)


def has_any(subschemas: Subschemas, keywords: Sequence[str]) -> bool:
    """Whether any of `keywords` is a rule of any of them."""
    return any(atom.rules.intersection(keywords) for atom in subschemas)


def branches_of(atom: Subschema, keyword: str) -> list[tuple[int, AnySchema]]:
    """The branches of the union at `keyword`, each with its place; none if there is no union."""
    value = atom.get(keyword)
    return schemas_in(value) if isinstance(value, list) else []


def without_descriptions(subschemas: Subschemas) -> Subschemas:
    """The same without descriptions; atoms that say nothing else are dropped."""
    return tuple(atom.leave_out(frozenset(["description"])) for atom in subschemas if atom.rules)


def without_unions(subschemas: Subschemas) -> Subschemas:
    """What holds beside the unions; atoms that say nothing else are dropped."""
    base = (atom.leave_out(frozenset(UNIONS)) for atom in subschemas)
    return tuple(atom for atom in base if atom.rules)
