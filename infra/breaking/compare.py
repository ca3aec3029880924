"""Compares the schemas of a release with those of today, and names each breaking change.

What others write and we read (requests, answers as they are asked for) may not be tightened. What
we write and others read may not be tightened either, as old records are read again, and each field
that was always there stays there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
_KEYWORDS = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Found:
    """A schema without a reference at its top, and the JSON pointer to it."""

    pointer: str
    schema: JsonObject


def resolved(root: JsonObject, found: Found) -> Found:
    """The target of a reference, with its siblings."""
    ref = found.schema.get("$ref")
    if not isinstance(ref, str):
        return found
    place: JsonValue = root
    for step in ref.removeprefix("#/").split("/"):
        place = place[step] if isinstance(place, dict) else None
    beside = {keyword: value for keyword, value in found.schema.items() if keyword != "$ref"}
    target = place if isinstance(place, dict) else {}
    return resolved(root, Found(ref.removeprefix("#"), target | beside))


def alternatives(root: JsonObject, found: Found) -> list[Found]:
    """The alternatives of a union; any other schema is its own only one."""
    found = resolved(root, found)
    for keyword in _KEYWORDS:
        branches = found.schema.get(keyword)
        if isinstance(branches, list):
            inner = [
                Found(f"{found.pointer}/{keyword}/{index}", branch)
                for index, branch in enumerate(branches)
                if isinstance(branch, dict)
            ]
            return [leaf for branch in inner for leaf in alternatives(root, branch)]
    return [found]


def by_name(root: JsonObject, found: Found) -> dict[str, Found]:
    """The alternatives by what distinguishes them: a tag, a constant, a title, a type."""
    named: dict[str, Found] = {}
    for alternative in alternatives(root, found):
        names = (name for name in _names(root, alternative) if name not in named)
        named[next(names, f"alternative {alternative.pointer}")] = alternative
    return named


def _names(root: JsonObject, found: Found) -> Iterator[str]:
    schema = found.schema
    if "const" in schema:
        yield json.dumps(schema["const"])
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        if isinstance(member, dict):
            shape = resolved(root, Found("", member)).schema
            if "const" in shape:
                yield f"{name} {json.dumps(shape['const'])}"
    for keyword in ("title", "type"):
        if isinstance(schema.get(keyword), str):
            yield str(schema[keyword])


_READ = "events/request."
_ASKED = ".asked.json"
_LOWER = frozenset(
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"]
)
_UPPER = frozenset(
    ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"]
)
_WORDS = frozenset(["title", "description", "default", "examples", "$comment", "deprecated"])
_STRUCTURE = frozenset(
    ["$schema", "$id", "$defs", "$ref", "discriminator", "anyOf", "oneOf", "type", "enum", "const"]
)
_INSIDE = frozenset(["properties", "required", "additionalProperties", "items", "prefixItems"])
_TYPES = frozenset(["array", "boolean", "integer", "null", "number", "object", "string"])


@dataclass(frozen=True, slots=True, order=True)
class Breaking:
    """A breaking change: the schema's file, a JSON pointer into its released text, and the kind."""

    document: str
    pointer: str
    change: str


def breaking_changes(
    released: Mapping[str, JsonObject], present: Mapping[str, JsonObject]
) -> list[Breaking]:
    """Each change that needs a new version, by document and place; documents may be added."""
    found: list[Breaking] = []
    for name, old in sorted(released.items()):
        if name not in present:
            found.append(Breaking(name, "", "the schema is gone"))
            continue
        is_written = not name.startswith(_READ) and not name.endswith(_ASKED)
        comparison = _Comparison(old, present[name], is_written, name.startswith("contracts/"))
        found.extend(Breaking(name, *change) for change in comparison.changes())
    return sorted(found)


class _Comparison:
    def __init__(
        self,
        old: JsonObject,
        new: JsonObject,
        is_written: bool,  # noqa: FBT001 - of its own kind
        is_contract: bool,  # noqa: FBT001 - of its own kind
    ) -> None:
        self._old = old
        self._new = new
        self._is_written = is_written
        self._is_contract = is_contract
        self._compared: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str], None] = {}

    def changes(self) -> list[tuple[str, str]]:
        """Pointers and what changed there."""
        self._compare(Found("", self._old), Found("", self._new))
        return list(self._found)

    def _add(self, pointer: str, change: str) -> None:
        self._found[pointer, change] = None

    def _compare(self, old: Found, new: Found) -> None:
        before, now = by_name(self._old, old), by_name(self._new, new)
        if len(before) == len(now) == 1:
            self._single(*before.values(), *now.values())
            return
        for name, alternative in before.items():
            if name in now:
                self._single(alternative, now[name])
            else:
                self._add(alternative.pointer, f"the variant {name} is gone")
        for name in now.keys() - before.keys():
            self._variant(old, name, now[name])

    def _variant(self, old: Found, name: str, new: Found) -> None:
        """Readers must be ready for new kinds of events, but not of answers, nor for null."""
        is_bare = name in types(new.schema)
        if self._is_written and (is_bare or self._is_contract):
            self._add(old.pointer, f"the variant {name} is new")

    def _single(self, old: Found, new: Found) -> None:
        if (old.pointer, new.pointer) in self._compared:
            return
        self._compared.add((old.pointer, new.pointer))
        for keyword, change in tightened(old.schema, new.schema):
            self._add(f"{old.pointer}/{keyword}", change)
        if self._is_written:
            self._widened(old, new)
        self._fields(old, new)
        self._inside(old, new, "additionalProperties")
        self._inside(old, new, "items")
        for index, (before, now) in enumerate(
            zip(_listed(old.schema), _listed(new.schema), strict=False)
        ):
            self._compare_values(old, new, f"prefixItems/{index}", before, now)

    def _widened(self, old: Found, new: Found) -> None:
        for kind in sorted(types(new.schema) - types(old.schema)):
            self._add(f"{old.pointer}/type", f"may now be of the type {kind}")
        before, now = values(old.schema), values(new.schema)
        if self._is_contract and before is not None:
            more = now is None or any(value not in before for value in now)
            if more:
                self._add(f"{old.pointer}/enum", "has further values")

    def _fields(self, old: Found, new: Found) -> None:
        before, now = _named(old.schema), _named(new.schema)
        was_required, is_required = _required(old.schema), _required(new.schema)
        for name, member in before.items():
            pointer = f"{old.pointer}/properties/{name}"
            if name not in now:
                self._add(pointer, f"the field `{name}` is gone")
                continue
            self._compare(
                Found(pointer, member), Found(f"{new.pointer}/properties/{name}", now[name])
            )
            if self._is_written and name in was_required - is_required:
                self._add(pointer, f"the field `{name}` is no longer always there")
        for name in sorted(is_required - was_required):
            # What we write always has all fields; old records are read with the default.
            if not self._is_written or "default" not in now.get(name, {}):
                self._add(f"{old.pointer}/required", f"the field `{name}` must be there")

    def _inside(self, old: Found, new: Found, keyword: str) -> None:
        absent: JsonValue = True
        before, now = old.schema.get(keyword, absent), new.schema.get(keyword, absent)
        self._compare_values(old, new, keyword, before, now)

    def _compare_values(
        self, old: Found, new: Found, place: str, before: JsonValue, now: JsonValue
    ) -> None:
        pointer = f"{old.pointer}/{place}"
        if isinstance(before, dict) and isinstance(now, dict):
            self._compare(Found(pointer, before), Found(f"{new.pointer}/{place}", now))
        elif before != now and before is not False and now is not True:
            self._add(pointer, f"`{place}` is tighter")


def _named(schema: JsonObject) -> dict[str, JsonObject]:
    properties = schema.get("properties")
    members = properties.items() if isinstance(properties, dict) else ()
    return {name: member for name, member in members if isinstance(member, dict)}


def _required(schema: JsonObject) -> set[str]:
    required = schema.get("required")
    return {str(name) for name in required} if isinstance(required, list) else set()


def _listed(schema: JsonObject) -> list[JsonValue]:
    listed = schema.get("prefixItems")
    return listed if isinstance(listed, list) else []


def tightened(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, str]]:
    """Each keyword that rules out what was allowed before, with what happened to it."""
    for kind in sorted(types(old) - types(new)):
        yield "type", f"no longer allows the type {kind}"
    yield from _values(old, new)
    for keyword in sorted(new.keys() - _WORDS - _STRUCTURE - _INSIDE):
        before, now = old.get(keyword), new[keyword]
        if before == now:
            continue
        if keyword in _LOWER | _UPPER and _is_looser(keyword, before, now):
            continue
        was = "is new" if before is None else f"was {json.dumps(before)}"
        yield keyword, f"`{keyword}` is {json.dumps(now)} and {was}"


def types(schema: JsonObject) -> frozenset[str]:
    """The JSON types that a schema allows; numbers include integers."""
    stated = schema.get("type")
    named = [stated] if isinstance(stated, str) else stated
    if not isinstance(named, list):
        return _of_values(schema)
    found = frozenset(str(kind) for kind in named)
    return found | {"integer"} if "number" in found else found


def values(schema: JsonObject) -> list[JsonValue] | None:
    """The values that a schema lists; None if it lists none."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else None


def _of_values(schema: JsonObject) -> frozenset[str]:
    """A list of values says what may be there by itself."""
    return _TYPES if values(schema) is None else frozenset()


def _values(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, str]]:
    before, now = values(old), values(new)
    keyword = "const" if "const" in new else "enum"
    if now is None:
        return
    if before is None:
        yield keyword, f"allows nothing but {json.dumps(now)}"
        return
    for value in before:
        if value not in now:
            yield keyword, f"no longer allows {json.dumps(value)}"


def _is_looser(keyword: str, before: JsonValue, now: JsonValue) -> bool:
    if not isinstance(before, int | float) or not isinstance(now, int | float):
        return False
    return now <= before if keyword in _LOWER else now >= before
