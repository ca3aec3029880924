"""Parses a schema's rules about lists."""

from collections.abc import Callable, Sequence

from services.worker.core.json_schema.keywords import AnySchema
from services.worker.dialects.compiler.parsing.bounds import LIST_SIZES, sizes_of
from services.worker.dialects.compiler.parsing.scalars import any_of_type, description
from services.worker.dialects.compiler.parsing.subschemas import (
    Node,
    Subschema,
    Subschemas,
    schemas_in,
)
from services.worker.dialects.compiler.shapes.notes import Notes
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import Array, Never, Plain, Shape, Text, Union

Read = Callable[[Sequence[Node | Subschema]], Shape]


def read_list(
    subschemas: Subschemas, read: Read, free: Text | Plain, rules: Rules, notes: Notes
) -> Shape:
    """A list of one shape; any list, or JSON text, where nothing is known of its items."""
    items = _tuple(subschemas, read, notes) or read(_each(subschemas))
    sizes = sizes_of(subschemas, LIST_SIZES, rules.list_sizes, notes)
    if sizes is None:
        return Never()
    if isinstance(items, Never):
        if sizes.get("minItems"):
            return Never()
        items = Plain({"type": "null"})
        if "maxItems" in rules.list_sizes:
            sizes |= {"maxItems": 0}
    if isinstance(items, Text):
        return free
    if isinstance(items, Plain) and items.is_anything and not sizes:
        return any_of_type("array", subschemas)
    return Array(items, sizes, description(subschemas))


def _each(subschemas: Subschemas) -> list[Node]:
    stated = [(atom, atom.get("items")) for atom in subschemas]
    return [
        Node(f"{atom.path}/items", items)
        for atom, items in stated
        if isinstance(items, dict | bool)
    ]


def _tuple(subschemas: Subschemas, read: Read, notes: Notes) -> Shape | None:
    """Where each place has a schema of its own, an item of any of these shapes at any place."""
    for atom in subschemas:
        keyword, places = _places(atom)
        if not places:
            continue
        notes.not_enforced(keyword, atom.path)
        nodes = [Node(f"{atom.path}/{keyword}/{i}", schema) for i, schema in schemas_in(places)]
        shapes = [read([node]) for node in (*nodes, *_after(atom, keyword, len(nodes)))]
        possible = tuple(shape for shape in shapes if not isinstance(shape, Never))
        return Union(possible, read([]), keyword, atom.path) if possible else Never()
    return None


def _places(atom: Subschema) -> tuple[str, list[AnySchema]]:
    for keyword in ("prefixItems", "items"):
        value = atom.get(keyword)
        if isinstance(value, list):
            return keyword, [schema for _, schema in schemas_in(value)]
    return "", []


def _after(atom: Subschema, keyword: str, count: int) -> list[Node]:
    """The schema of items beyond the last place, unless the list is too short for any."""
    rest = "items" if keyword == "prefixItems" else "additionalItems"
    longest = atom.get("maxItems")
    if isinstance(longest, int | float) and longest <= count:
        return []
    schema = atom.get(rest)
    return [Node(f"{atom.path}/{rest}", schema if isinstance(schema, dict | bool) else True)]
