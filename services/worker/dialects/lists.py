"""Reads what a schema says of lists."""

from collections.abc import Callable, Sequence

from services.worker.core.keywords import AnySchema
from services.worker.dialects.atoms import Atom, Atoms, Node, schemas_in
from services.worker.dialects.notes import Notes
from services.worker.dialects.rules import Rules
from services.worker.dialects.scalars import description
from services.worker.dialects.shape import Array, JsonObject, Never, Plain, Shape, Text, Union

Read = Callable[[Sequence[Node | Atom]], Shape]


def read_list(atoms: Atoms, read: Read, free: Text, rules: Rules, notes: Notes) -> Shape:
    """A list of one shape; all of it as JSON text where nothing is known of its items."""
    items = _tuple(atoms, read, free, notes) or read(_each(atoms))
    sizes = _sizes(atoms, rules, notes)
    if isinstance(items, Never):
        items = Plain({"type": "null"})
        if "maxItems" in rules.list_sizes:
            sizes |= {"maxItems": 0}
    if isinstance(items, Text):
        return free
    least = _number(sizes, "minItems", 0)
    if least > _number(sizes, "maxItems", least):
        return Never()
    return Array(items, sizes, description(atoms))


def _each(atoms: Atoms) -> list[Node]:
    stated = [(atom, atom.get("items")) for atom in atoms]
    return [
        Node(f"{atom.path}/items", items)
        for atom, items in stated
        if isinstance(items, dict | bool)
    ]


def _tuple(atoms: Atoms, read: Read, free: Text, notes: Notes) -> Shape | None:
    """Where each place has a schema of its own, an item of any of these shapes at any place."""
    for atom in atoms:
        keyword, places = _places(atom)
        if not places:
            continue
        notes.not_enforced(keyword, atom.path)
        nodes = [Node(f"{atom.path}/{keyword}/{i}", schema) for i, schema in schemas_in(places)]
        shapes = [read([node]) for node in (*nodes, *_after(atom, keyword, len(nodes)))]
        possible = tuple(shape for shape in shapes if not isinstance(shape, Never))
        return Union(possible, free, keyword, atom.path) if possible else Never()
    return None


def _places(atom: Atom) -> tuple[str, list[AnySchema]]:
    for keyword in ("prefixItems", "items"):
        value = atom.get(keyword)
        if isinstance(value, list):
            return keyword, [schema for _, schema in schemas_in(value)]
    return "", []


def _after(atom: Atom, keyword: str, count: int) -> list[Node]:
    """The schema of items beyond the last place, unless the list is too short for any."""
    rest = "items" if keyword == "prefixItems" else "additionalItems"
    longest = atom.get("maxItems")
    if isinstance(longest, int | float) and longest <= count:
        return []
    schema = atom.get(rest)
    return [Node(f"{atom.path}/{rest}", schema if isinstance(schema, dict | bool) else True)]


def _sizes(atoms: Atoms, rules: Rules, notes: Notes) -> JsonObject:
    found: dict[str, int] = {}
    for atom in atoms:
        for keyword, tighter in (("minItems", max), ("maxItems", min)):
            value = atom.get(keyword)
            if not isinstance(value, int | float) or (keyword == "minItems" and value <= 0):
                continue
            if value <= rules.list_sizes.get(keyword, -1):
                found[keyword] = tighter(int(value), found.get(keyword, int(value)))
                continue
            notes.not_enforced(keyword, atom.path)
            if (
                keyword == "minItems" and keyword in rules.list_sizes
            ):  # most of it is better than none
                found[keyword] = rules.list_sizes[keyword]
    return dict(found)


def _number(sizes: JsonObject, keyword: str, otherwise: int) -> int:
    value = sizes.get(keyword, otherwise)
    return value if isinstance(value, int) else otherwise
