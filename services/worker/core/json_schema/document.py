"""A JSON Schema as one document: its draft, its references, and all schemas in it."""

import re
from collections.abc import Iterator

from answerbus.problems import pointer
from services.worker.core.json_schema.keywords import (
    STORES,
    AnySchema,
    Draft,
    JsonObject,
    Step,
    draft_of,
    reference,
    subschemas,
)

_NOWHERE = object()
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")  # no list of a schema has a billion items
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


class Document:
    """Looks up references of one schema document; references never leave it."""

    def __init__(self, root: AnySchema) -> None:
        """Takes the schema as it was sent; it is read, never changed."""
        self.root = root
        self.draft = draft_of(root) or Draft.D2020
        self._targets: dict[str, AnySchema | None] = {}

    def target(self, ref: str) -> AnySchema | None:
        """The schema that `#` or `#/...` points to; None for every other reference and place."""
        if ref not in self._targets:
            self._targets[ref] = self._look_up(ref)
        return self._targets[ref]

    def _look_up(self, ref: str) -> AnySchema | None:
        if ref != "#" and not ref.startswith("#/"):
            return None
        place: object = self.root
        for step in steps_of(ref):
            place = inside(place, step)
        return place if isinstance(place, dict | bool) else None

    def ignores_siblings(self, schema: JsonObject) -> bool:
        """Whether all but `$ref` means nothing in this schema, as it was before 2019-09."""
        return self.draft < Draft.D2019 and reference(schema) is not None

    def applied(self) -> Iterator[JsonObject]:
        """Each schema object that is applied to some value, once; definitions that are referred to.

        It reads on only as far as it is asked for.
        """
        seen: set[int] = set()
        waiting: list[AnySchema] = [self.root]
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, bool) or id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            ref = reference(schema)
            target = None if ref is None else self.target(ref)
            if target is not None:
                waiting.append(target)
            if not self.ignores_siblings(schema):
                waiting += [inner for steps, inner in subschemas(schema) if steps[0] not in STORES]

    def schemas(self) -> Iterator[tuple[str, JsonObject]]:
        """Each schema object once, with a JSON pointer to it; also those only a `$ref` reaches."""
        seen: set[int] = set()
        waiting: list[tuple[tuple[Step, ...], AnySchema]] = [((), self.root)]
        while waiting:
            path, schema = waiting.pop()
            if isinstance(schema, bool) or id(schema) in seen:
                continue
            seen.add(id(schema))
            yield pointer(path), schema
            waiting.extend((path + steps, inner) for steps, inner in subschemas(schema))
            ref = reference(schema)
            target = None if ref is None else self.target(ref)
            if ref is not None and target is not None:
                waiting.append((tuple(steps_of(ref)), target))


def steps_of(ref: str) -> list[str]:
    """The steps of the JSON pointer in a fragment such as `#/$defs/a`."""
    parts = percent_decoded(ref.removeprefix("#")).split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def percent_decoded(text: str) -> str:
    """A fragment as it is meant."""
    decoded = _PERCENT.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())
    return decoded.decode(errors="replace")


def inside(place: object, step: str) -> object:
    """The target of one step of a pointer; a non-JSON value where there is none."""
    match place:
        case dict():
            return place.get(step, _NOWHERE)
        case list() if _INDEX.fullmatch(step) and int(step) < len(place):
            return place[int(step)]
        case _:
            return _NOWHERE
