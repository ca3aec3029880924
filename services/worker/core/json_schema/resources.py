"""The targets of references in a schema document: its resources by `$id`, and its anchors."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from services.worker.core.json_schema.document import inside, percent_decoded, steps_of
from services.worker.core.json_schema.keywords import (
    AnySchema,
    Draft,
    JsonObject,
    Step,
    reference,
    subschemas,
)

# Schemas without an `$id` have this address; a reference to it finds nothing else.
_UNNAMED = "http://document.invalid/"
ADDRESS_CHARS_MAX = 1_000  # of an id and where it is: joined to others, longer ones take long
RECURSIVE = ""  # the name of what `$recursiveAnchor` marks, which no anchor can have


@dataclass(frozen=True, slots=True)
class SchemaLocation:
    """Where a schema is: the steps from the root, and the address of its resource."""

    steps: tuple[Step, ...]
    base: str


class Resources:
    """Looks up what stays inside one document; what leaves it is not found."""

    def __init__(self, root: JsonObject, draft: Draft) -> None:
        """Reads all schemas of the document once."""
        self._draft = draft
        self._roots: dict[str, JsonObject] = {_UNNAMED: root}
        self._anchors: dict[tuple[str, str], JsonObject] = {}
        self._places: dict[int, tuple[JsonObject, SchemaLocation]] = {}
        self.dynamic: dict[str, dict[str, JsonObject]] = {}  # by name, then by resource
        self.twice: list[SchemaLocation] = []  # ids that were taken already
        self.odd: list[
            tuple[SchemaLocation, JsonObject]
        ] = []  # ids that readers understand differently
        self._walk(root, SchemaLocation((), _UNNAMED))

    def place(self, schema: JsonObject) -> SchemaLocation:
        """Where a schema of the document stands."""
        return self._places[id(schema)][1]

    def schemas(self) -> Iterator[tuple[SchemaLocation, JsonObject]]:
        """Each schema that is known; those that references lead to come to be known by `find`."""
        seen = 0
        while len(self._places) > seen:
            found = list(self._places.values())[seen:]
            seen += len(found)
            yield from ((place, schema) for schema, place in found)

    def find(self, schema: JsonObject, ref: str) -> AnySchema | None:
        """The target of a reference of `schema`; None if it is not in this document."""
        base = self.place(schema).base
        address, _, fragment = ref.partition("#")
        base = _joined(base, address) if address else base
        root = self._roots.get(base)
        name = percent_decoded(fragment)
        if root is None or not name:
            return root
        if name.startswith("/"):
            return self._pointed(root, fragment)
        return self._anchors.get((base, name))

    def find_dynamic(self, schema: JsonObject, ref: str) -> tuple[AnySchema | None, str | None]:
        """The first target of `$dynamicRef`; and its name, where another may take precedence."""
        target = self.find(schema, ref)
        name = percent_decoded(ref.partition("#")[2])
        is_marked = isinstance(target, dict) and target.get("$dynamicAnchor") == name
        return target, name if is_marked else None

    def find_recursive(self, schema: JsonObject) -> tuple[JsonObject, str | None]:
        """The same for `$recursiveRef`, which leads to the root of a resource."""
        root = self._roots[self.place(schema).base]
        return root, RECURSIVE if root.get("$recursiveAnchor") is True else None

    def _pointed(self, root: JsonObject, fragment: str) -> AnySchema | None:
        steps, base = self.place(root).steps, self.place(root).base
        target: object = root
        for step in steps_of("#" + fragment):
            target, steps = inside(target, step), (*steps, step)
            if not isinstance(target, dict | list | bool):  # a pointer may go on for long
                return None
            if isinstance(target, dict) and id(target) in self._places:
                base = self.place(target).base
        if isinstance(target, dict):
            self._walk(target, SchemaLocation(steps, base))
        return target if isinstance(target, dict | bool) else None

    def _walk(self, top: JsonObject, place: SchemaLocation) -> None:
        waiting: list[tuple[JsonObject, SchemaLocation]] = [(top, place)]
        while waiting:
            schema, place = waiting.pop()
            if id(schema) in self._places:
                continue
            if self._draft >= Draft.D2019 or reference(schema) is None:
                place = self._named(schema, place)
            self._places[id(schema)] = schema, place
            within = [
                (inner, SchemaLocation((*place.steps, *steps), place.base))
                for steps, inner in subschemas(schema)
                if isinstance(inner, dict) and self._knows(steps[0])
            ]
            waiting.extend(reversed(within))  # in the order of the document: the first has a name

    def _knows(self, keyword: Step) -> bool:
        """Names in `$defs` count since there is `$defs`; before, a pointer may still lead there."""
        return keyword != "$defs" or self._draft >= Draft.D2019

    def _name(self, place: SchemaLocation, name: str, schema: JsonObject) -> None:
        if self._anchors.setdefault((place.base, name), schema) is not schema:
            self.twice.append(place)

    def _named(self, schema: JsonObject, place: SchemaLocation) -> SchemaLocation:
        """The place of a schema in its own resource, if it starts one; its names are kept."""
        own = schema.get("$id" if self._draft > Draft.D4 else "id")
        if isinstance(own, str):
            address, _, fragment = own.partition("#")
            if _is_odd(address, fragment, self._draft):
                self.odd.append((place, schema))
            if address:
                place = SchemaLocation(place.steps, _joined(place.base, address))
                if self._roots.setdefault(place.base, schema) is not schema:
                    self.twice.append(place)
            if fragment and self._draft < Draft.D2019:
                self._name(place, fragment, schema)
        for keyword, since in (("$anchor", Draft.D2019), ("$dynamicAnchor", Draft.D2020)):
            name = schema.get(keyword)
            if isinstance(name, str) and self._draft >= since:
                self._name(place, name, schema)
                if keyword == "$dynamicAnchor":
                    self.dynamic.setdefault(name, {})[place.base] = schema
        if schema.get("$recursiveAnchor") is True and self._roots.get(place.base) is schema:
            self.dynamic.setdefault(RECURSIVE, {})[place.base] = schema
        return place


def _is_odd(address: str, fragment: str, draft: Draft) -> bool:
    """Whether an id is not an address, or names a part of a resource and not one."""
    if len(address) > ADDRESS_CHARS_MAX:
        return True
    try:
        urlsplit(address)
    except ValueError:
        return True
    return bool(fragment) and (bool(address) or draft >= Draft.D2019)


def _joined(base: str, address: str) -> str:
    if len(base) + len(address) > ADDRESS_CHARS_MAX:
        return address
    try:
        return urljoin(base, address)
    except ValueError:  # such as a bracket that is not closed
        return address
