"""Rewrites a schema so that all its references are JSON pointers: no ids, anchors or dynamic scope.

What counts, compiles or shows schemas afterwards needs to know one kind of reference only.
"""

from collections import deque
from collections.abc import Iterator

from pydantic import JsonValue

from services.worker.core.json_schema.keywords import (
    REFERENCES,
    STORES,
    AnySchema,
    Draft,
    JsonObject,
    Step,
    reference,
    subschemas,
)
from services.worker.core.json_schema.resources import Resources

_NAMES = frozenset(["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"])

# Of each name that several resources mark as dynamic, the one that was entered first.
_Scope = frozenset[tuple[str, str]]


class TooManyError(Exception):
    """The rewritten schema would have more parts than it may."""


def localised(root: JsonObject, draft: Draft, resources: Resources, limit: int) -> JsonObject:
    """The same schema with pointers alone; itself where it has no others.

    All its references lead somewhere. What a dynamic reference means depends on the way to it, so
    that a schema on several ways is written several times. TooManyError: more than `limit` parts.
    """
    if not _has_names(draft, resources):
        return root
    return _Rewriting(root, draft, resources, limit).whole()


def _has_names(draft: Draft, resources: Resources) -> bool:
    own = "$id" if draft > Draft.D4 else "id"
    for place, schema in resources.schemas():
        ref = reference(schema)
        if (ref is not None and ref != "#" and not ref.startswith("#/")) or (
            any(keyword in schema for keyword in ("$dynamicRef", "$recursiveRef"))
        ):
            return True
        if place.steps and isinstance(schema.get(own), str):
            return True
    return False


class _Rewriting:
    def __init__(self, root: JsonObject, draft: Draft, resources: Resources, limit: int) -> None:
        self._root = root
        self._draft = draft
        self._resources = resources
        self._left = limit
        self._store = "$defs" if draft >= Draft.D2019 else "definitions"
        self._ambiguous = {name for name, at in resources.dynamic.items() if len(at) > 1}
        self._names: dict[tuple[int, _Scope], str] = {}
        self._waiting: deque[tuple[str, JsonObject, _Scope]] = deque()

    def whole(self) -> JsonObject:
        """The root, with all that is referred to in one place."""
        written = self._schema(self._root, self._entered(frozenset(), self._root))
        definitions: JsonObject = {}
        while self._waiting:
            name, schema, scope = self._waiting.popleft()
            definitions[name] = self._schema(schema, scope)
        declared: JsonObject = {key: self._root[key] for key in ("$schema",) if key in self._root}
        return declared | written | ({self._store: definitions} if definitions else {})

    def _entered(self, scope: _Scope, schema: JsonObject) -> _Scope:
        """The scope inside the resource of `schema`."""
        base = self._resources.place(schema).base
        known = {name for name, _ in scope}
        new = {
            (name, base)
            for name in self._ambiguous - known
            if base in self._resources.dynamic[name]
        }
        return scope | new

    def _schema(self, schema: JsonObject, scope: _Scope) -> JsonObject:
        self._left -= 1
        if self._left < 0:
            raise TooManyError
        targets = [self._reference(target, scope) for target in self._targets(schema, scope)]
        if targets and self._draft < Draft.D2019:
            return targets[0]
        dropped = _NAMES | REFERENCES | STORES | {"$schema"}
        written: JsonObject = {k: _copied(v) for k, v in schema.items() if k not in dropped}
        for steps, inner in subschemas(schema):
            if steps[0] not in STORES and isinstance(inner, dict):
                _put(written, steps, self._schema(inner, self._entered(scope, inner)))
        if targets:
            written = targets[0] | written
        if targets[1:]:
            listed = written.get("allOf")
            written["allOf"] = [*(listed if isinstance(listed, list) else []), *targets[1:]]
        return written

    def _targets(self, schema: JsonObject, scope: _Scope) -> Iterator[AnySchema]:
        ref, dynamic = schema.get("$ref"), schema.get("$dynamicRef")
        if isinstance(ref, str):
            yield from _known(self._resources.find(schema, ref))
        if isinstance(dynamic, str) and self._draft is Draft.D2020:
            yield from self._redirected(*self._resources.find_dynamic(schema, dynamic), scope)
        if isinstance(schema.get("$recursiveRef"), str) and self._draft is Draft.D2019:
            yield from self._redirected(*self._resources.find_recursive(schema), scope)

    def _redirected(
        self, target: AnySchema | None, name: str | None, scope: _Scope
    ) -> Iterator[AnySchema]:
        for entered, base in scope:
            if entered == name:
                target = self._resources.dynamic[name][base]
        yield from _known(target)

    def _reference(self, target: AnySchema, scope: _Scope) -> JsonObject:
        if isinstance(target, bool):
            return {} if target else {"not": {}}
        scope = self._entered(scope, target)
        if target is self._root and scope == self._entered(frozenset(), target):
            return {"$ref": "#"}
        key = id(target), scope
        if key not in self._names:
            self._names[key] = self._new_name(target)
            self._waiting.append((self._names[key], target, scope))
        return {"$ref": f"#/{self._store}/{self._names[key]}"}

    def _new_name(self, target: JsonObject) -> str:
        steps = self._resources.place(target).steps
        letters = "".join(c for c in str(steps[-1]) if c.isalnum()) if steps else ""
        return f"{letters or 'schema'}-{len(self._names) + 1}"


def _known(target: AnySchema | None) -> list[AnySchema]:
    return [] if target is None else [target]


def _copied(value: JsonValue) -> JsonValue:
    """The value with a list or object of its own, which schemas can be put into."""
    match value:
        case list():
            return [*value]
        case dict():
            return {**value}
        case _:
            return value


def _put(written: JsonObject, steps: tuple[Step, ...], schema: JsonObject) -> None:
    """Puts `schema` where `steps` lead to."""
    held = written[str(steps[0])]
    match held, steps[1:]:
        case list(), (int(index),):
            held[index] = schema
        case dict(), (name,):
            held[str(name)] = schema
        case _:
            written[str(steps[0])] = schema
