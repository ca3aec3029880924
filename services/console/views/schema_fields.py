"""A JSON Schema as lines that people read: each member with its type, limits and meaning; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DEPTH_MAX = 8
LINES_MAX = 300
_LIMITS: Mapping[str, str] = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "pattern": "pattern {}",
    "format": "{}",
}


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One line; `depth` says how far within, `required` is None where that is not a question."""

    depth: int
    name: str
    type: str
    required: bool | None
    limits: str
    description: str


def schema_fields(schema: Mapping[str, Any]) -> list[SchemaField]:
    """Members below their object, alternatives below their union, in the schema's order."""
    found = list[SchemaField]()
    for line in _lines(schema, schema, 0, "answer", required=None):
        found.append(line)
        if len(found) == LINES_MAX:
            break
    return found


def _lines(
    root: Mapping[str, Any], node: object, depth: int, name: str, *, required: bool | None
) -> Iterator[SchemaField]:
    known = _resolved(root, node)
    if depth > DEPTH_MAX:
        return
    limits = ", ".join(text.format(known[key]) for key, text in _LIMITS.items() if key in known)
    about = str(known.get("description", ""))
    yield SchemaField(depth, name, _type(root, known), required, limits, about)
    for branch in _branches(known):
        shape = _resolved(root, branch)
        if "properties" in shape or "items" in shape:
            title = str(shape.get("title", "alternative"))
            yield from _lines(root, branch, depth + 1, f"either {title}", required=None)
    must = known.get("required", ())
    for member, part in _members(known):
        yield from _lines(root, part, depth + 1, member, required=member in must)
    items = known.get("items")
    if isinstance(items, Mapping) and _is_deep(_resolved(root, items)):
        yield from _lines(root, items, depth + 1, "each item", required=None)


def _members(node: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = node.get("properties")
    return list(found.items()) if isinstance(found, Mapping) else []


def _branches(node: Mapping[str, Any]) -> list[Any]:
    found = node.get("oneOf") or node.get("anyOf") or ()
    return list(found) if isinstance(found, list | tuple) else []


def _is_deep(node: Mapping[str, Any]) -> bool:
    return bool(_members(node) or _branches(node) or "items" in node)


def _type(root: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    if "const" in node:
        return repr(node["const"]).replace("'", '"')
    if "enum" in node:
        return " | ".join(repr(value).replace("'", '"') for value in node["enum"])
    if branches := _branches(node):
        return " | ".join(dict.fromkeys(_name(root, branch) for branch in branches))
    kind = node.get("type", "any JSON")
    if kind == "array" and "items" in node:
        return f"array of {_name(root, node['items'])}"
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


def _name(root: Mapping[str, Any], node: object) -> str:
    """In one word: what it consists of is below."""
    known = _resolved(root, node)
    if "properties" in known or _branches(known):
        return str(known.get("title", "object"))
    return "array" if "items" in known else _type(root, known)


def _resolved(root: Mapping[str, Any], node: object) -> Mapping[str, Any]:
    """The schema behind a reference into `$defs`; anything else is itself."""
    for _ in range(DEPTH_MAX):
        if not isinstance(node, Mapping):
            return {}
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        definitions = root.get("$defs", {})
        target = definitions.get(reference.rpartition("/")[2], {})
        rest = {key: value for key, value in node.items() if key != "$ref"}
        node = {**target, **rest} if isinstance(target, Mapping) else {}
    return {}
