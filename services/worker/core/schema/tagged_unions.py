"""Unions whose alternatives differ by a tag.

A tag is a member that every alternative has with other values of its own (`const`, `enum`), or that
`discriminator` names.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, JsonObject, reference

UNIONS = ("oneOf", "anyOf")
_NAMES_OF_TAGS_MAX = 4  # a type of tags may have a name, and that one another


@dataclass(frozen=True, slots=True)
class TaggedUnion:
    """The member that says which alternative is meant, and all that it may say."""

    member: str
    variants: dict[str, JsonObject]

    @property
    def is_required(self) -> bool:
        """Whether no alternative may be without its tag."""
        return all(self.member in required(variant) for variant in self.variants.values())


def read_union(
    document: Document, schema: JsonObject, step: Callable[[], None]
) -> TaggedUnion | None:
    """The union that a schema is, if a tag tells its objects apart; counts with `step`."""
    mapped = _mapped(document, schema)
    if mapped is not None:
        return mapped
    found = _alternatives(document, schema, step)
    objects = [variant for variant in found if "properties" in variant]
    if len(objects) < 2:
        return None
    for member in _members(objects[0]):
        tags = [_tags(document, variant, member) for variant in objects]
        names = [tag for own in tags for tag in own]
        if all(tags) and len({*names}) == len(names):
            each = zip(objects, tags, strict=True)
            return TaggedUnion(member, {tag: one for one, own in each for tag in own})
    return None


def required(variant: JsonObject) -> frozenset[str]:
    """The members that an object must have."""
    names = variant.get("required")
    return frozenset(str(name) for name in names) if isinstance(names, list) else frozenset()


def in_place(document: Document, schema: JsonObject) -> Iterator[AnySchema]:
    """The schemas that apply wherever this one does."""
    ref = reference(schema)
    target = None if ref is None else document.target(ref)
    if target is not None:
        yield target
    yield from listed(schema, "allOf")


def listed(schema: JsonObject, *keywords: str) -> Iterator[AnySchema]:
    """The schemas in lists under these keywords."""
    for keyword in keywords:
        alternatives = schema.get(keyword)
        for one in alternatives if isinstance(alternatives, list) else ():
            if isinstance(one, dict | bool):
                yield one


def _mapped(document: Document, schema: JsonObject) -> TaggedUnion | None:
    """As `discriminator` says it: by references, or by the names that these end with."""
    match schema.get("discriminator"):
        case {"propertyName": str(member), "mapping": dict(mapping)} if mapping:
            pass
        case _:
            return None
    alternatives = (one for one in listed(schema, *UNIONS) if isinstance(one, dict))
    refs = [ref for alternative in alternatives if (ref := reference(alternative)) is not None]
    variants: dict[str, JsonObject] = {}
    for tag, named in mapping.items():
        ending = "/" + str(named).removeprefix("#").removeprefix("/")
        target = next((document.target(ref) for ref in refs if ref.endswith(ending)), None)
        if not isinstance(target, dict) or "properties" not in target:
            return None
        variants[tag] = target
    return TaggedUnion(member, variants)


def _alternatives(
    document: Document, schema: JsonObject, step: Callable[[], None]
) -> Iterator[JsonObject]:
    """Those of unions within unions as well."""
    waiting, seen = [*listed(schema, *UNIONS)], set[int]()
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, bool) or id(one) in seen:
            continue
        step()
        seen.add(id(one))
        inner = [*in_place(document, one), *listed(one, *UNIONS)]
        if inner and "properties" not in one:
            waiting[:0] = inner
        else:
            yield one


def _tags(document: Document, variant: JsonObject, member: str) -> list[str]:
    """What the member of an object may say; empty if no tag is known."""
    properties = variant.get("properties")
    schema = properties.get(member) if isinstance(properties, dict) else None
    for _ in range(_NAMES_OF_TAGS_MAX):
        ref = reference(schema) if isinstance(schema, dict) else None
        schema = schema if ref is None else document.target(ref)
    if not isinstance(schema, dict):
        return []
    stated = schema.get("enum") if "enum" in schema else [schema.get("const")]
    named = stated if isinstance(stated, list) else []
    tags = [tag for tag in named if isinstance(tag, str)]
    return tags if len(tags) == len(named) else []


def _members(variant: JsonObject) -> Iterator[str]:
    properties = variant.get("properties")
    yield from properties if isinstance(properties, dict) else ()
