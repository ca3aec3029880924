"""Answers to unions without their tags: accepted if only one meaning fits."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.limits import PROBLEMS_MAX
from answerbus.problems import pointer
from services.worker.core.guard.effort import spend
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, JsonObject, reference

UNIONS = ("oneOf", "anyOf")
_NAMES_OF_TAGS_MAX = 4  # a type of tags may have a name, and that one another
_TEXTS_OF_STEP = 20  # are looked at in one step

Step = Callable[[int], None]  # says how many steps are taken


@dataclass(frozen=True, slots=True)
class TaggedUnion:
    """The member that says which alternative is meant, and all that it may say."""

    member: str
    variants: dict[str, JsonObject]

    @property
    def is_required(self) -> bool:
        """Whether no alternative may be without its tag."""
        each = {id(variant): variant for variant in self.variants.values()}  # may have many tags
        return all(self.member in required(variant) for variant in each.values())


def read_union(document: Document, schema: JsonObject, step: Step) -> TaggedUnion | None:
    """The union that a schema is, if a tag distinguishes its objects; counts with `step`."""
    mapped = _mapped(document, schema, step)
    if mapped is not None:
        return mapped
    found = _alternatives(document, schema, step)
    objects = [variant for variant in found if "properties" in variant]
    if len(objects) < 2:
        return None
    for member in _members(objects[0]):
        all_tags = (_tags(document, variant, member, step) for variant in objects)
        tags = [*takewhile(bool, all_tags)]  # up to the first without
        names = [tag for own in tags for tag in own]
        if len(tags) == len(objects) and len({*names}) == len(names):
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


def _mapped(document: Document, schema: JsonObject, step: Step) -> TaggedUnion | None:
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
        step(1 + len(refs) // _TEXTS_OF_STEP)
        ending = "/" + str(named).removeprefix("#").removeprefix("/")
        target = next((document.target(ref) for ref in refs if ref.endswith(ending)), None)
        if not isinstance(target, dict) or "properties" not in target:
            return None
        variants[tag] = target
    return TaggedUnion(member, variants)


def _alternatives(document: Document, schema: JsonObject, step: Step) -> Iterator[JsonObject]:
    """Those of unions within unions as well."""
    waiting, seen = [*listed(schema, *UNIONS)], set[int]()
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, bool) or id(one) in seen:
            continue
        step(2)  # for what is in its place, and for its own alternatives
        seen.add(id(one))
        inner = [*in_place(document, one), *listed(one, *UNIONS)]
        if inner and "properties" not in one:
            waiting[:0] = inner
        else:
            yield one


def _tags(document: Document, variant: JsonObject, member: str, step: Step) -> list[str]:
    """The possible values of an object's member; empty if no tag is known."""
    properties = variant.get("properties")
    schema = properties.get(member) if isinstance(properties, dict) else None
    for _ in range(_NAMES_OF_TAGS_MAX):
        ref = reference(schema) if isinstance(schema, dict) else None
        schema = schema if ref is None else document.target(ref)
    if not isinstance(schema, dict):
        step(1)
        return []
    stated = schema.get("enum") if "enum" in schema else [schema.get("const")]
    named = stated if isinstance(stated, list) else []
    step(1 + len(named) // _TEXTS_OF_STEP)
    tags = [tag for tag in named if isinstance(tag, str)]
    return tags if len(tags) == len(named) else []


def _members(variant: JsonObject) -> Iterator[str]:
    properties = variant.get("properties")
    yield from properties if isinstance(properties, dict) else ()


_Path = tuple[str | int, ...]

_NO_TAG = "tag"  # the code of a problem, as where the tag is another one
_NO_TAG_FOR_PYDANTIC = "union_tag_not_found"
STEPS_MAX = 100_000  # of looking at a schema for a value: some tenths of a second
STEP_NS = 3_000
_STEPS_AT_ONCE = 500  # are paid for together


class TooManyStepsError(Exception):
    """There are too many alternatives for too large a value: it is left as it is."""


class UnionMatcher:
    """Looks at one schema document; counts its steps."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._unions: dict[int, TaggedUnion | None] = {}
        self._steps = 0

    def at(
        self, schemas: Sequence[AnySchema], value: JsonValue
    ) -> tuple[list[JsonObject], list[TaggedUnion]]:
        """The schemas that may apply to a value, and those unions among them that it has no tag of.

        Of a union that the value has a tag of, the alternative it names is the only one.
        """
        waiting, seen = [*schemas], set[int]()
        applied, untagged = list[JsonObject](), list[TaggedUnion]()
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, bool) or id(schema) in seen:
                continue
            self._step()
            seen.add(id(schema))
            applied.append(schema)
            waiting.extend(in_place(self._document, schema))
            union = self._union(schema)
            if union is None:
                waiting.extend(listed(schema, *UNIONS))
            elif isinstance(value, dict):
                tag = value.get(union.member)
                if isinstance(tag, str) and tag in union.variants:
                    waiting.append(union.variants[tag])
                else:
                    untagged.append(union)
        return applied, untagged

    def _union(self, schema: JsonObject) -> TaggedUnion | None:
        if id(schema) not in self._unions:
            self._unions[id(schema)] = read_union(self._document, schema, self._step)
        return self._unions[id(schema)]

    def inside(self, schemas: Sequence[JsonObject], step: str | int) -> list[AnySchema]:
        """The schemas for a member or an item of a value that `schemas` apply to."""
        self._step(len(schemas))
        return [found for schema in schemas for found in _inside(schema, step)]

    def _step(self, number: int = 1) -> None:
        paid = self._steps // _STEPS_AT_ONCE
        self._steps += number
        spend((self._steps // _STEPS_AT_ONCE - paid) * _STEPS_AT_ONCE * STEP_NS)
        if self._steps > STEPS_MAX:
            raise TooManyStepsError


def _inside(schema: JsonObject, step: str | int) -> Iterator[AnySchema]:
    if isinstance(step, str):
        properties = schema.get("properties")
        named = properties if isinstance(properties, dict) else {}
        one = named[step] if step in named else schema.get("additionalProperties")
    else:
        one = _item(schema, step)
    if isinstance(one, dict):
        yield one


def _item(schema: JsonObject, number: int) -> JsonValue:
    items = schema.get("items")
    if isinstance(items, list):  # as drafts before 2020-12 say it
        return items[number] if number < len(items) else schema.get("additionalItems")
    first = schema.get("prefixItems")
    return first[number] if isinstance(first, list) and number < len(first) else items


def with_tags(document: Document, value: JsonValue) -> JsonValue:
    """The value, in which `{"tool_call": {…}}` is the variant of that name with its tag.

    An object with one member can mean nothing else where that is the name of one variant, and what
    it holds is an object that does not name another.
    """
    try:
        return _tagged(UnionMatcher(document), [document.root], value)
    except TooManyStepsError:
        return value


def _tagged(matcher: UnionMatcher, schemas: Sequence[AnySchema], value: JsonValue) -> JsonValue:
    if not schemas:  # no rule is on what is in there
        return value
    applied, untagged = matcher.at(schemas, value)
    meant = [found for union in untagged if (found := _named(union, value)) is not None]
    if len(meant) == 1:
        value = meant[0]
        applied, _ = matcher.at(schemas, value)
    match value:
        case dict():
            return {
                name: _tagged(matcher, matcher.inside(applied, name), of)
                for name, of in value.items()
            }
        case list():
            return [_tagged(matcher, matcher.inside(applied, n), of) for n, of in enumerate(value)]
        case _:
            return value


def _named(union: TaggedUnion, value: JsonValue) -> JsonValue:
    """The variant whose name is the only member of an object; None if there is none."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((tag, inner),) = value.items()
    if tag not in union.variants or not isinstance(inner, dict):
        return None
    named = {union.member: tag, **inner}
    is_whole = required(union.variants[tag]) <= named.keys()
    return named if is_whole and named[union.member] == tag else None


def name_tags(
    problems: Iterable[Problem], document: Document, value: JsonValue
) -> tuple[Problem, ...]:
    """The problems, with the tags that there are wherever an object has none.

    What else is wrong there depends on the tag, so that it is not reported.
    """
    kept = tuple(problems)
    try:
        missing = dict(_missing(UnionMatcher(document), [document.root], value, ()))
    except TooManyStepsError:
        return kept
    found: dict[str, Problem] = {}
    for number, problem in enumerate(kept):
        place = _place_above(problem, missing)
        if place is None:
            found[str(number)] = problem
        elif problem.code == _NO_TAG_FOR_PYDANTIC:
            found[f"tag {place}"] = _no_tag(place, missing[place], problem.code)
        elif missing[place].is_required:
            found[f"tag {place}"] = _no_tag(place, missing[place], _NO_TAG)
        else:
            found[str(number)] = problem
    return tuple(found.values())[:PROBLEMS_MAX]


def _missing(
    matcher: UnionMatcher, schemas: Sequence[AnySchema], value: JsonValue, path: _Path
) -> Iterator[tuple[str, TaggedUnion]]:
    """Each place of an object that has no tag, and what it could be there."""
    if not schemas:
        return
    applied, untagged = matcher.at(schemas, value)
    match value:
        case dict():
            for union in untagged:
                if union.member not in value:
                    yield pointer(path), union
            for name, of in value.items():
                yield from _missing(matcher, matcher.inside(applied, name), of, (*path, name))
        case list():
            for number, of in enumerate(value):
                yield from _missing(matcher, matcher.inside(applied, number), of, (*path, number))
        case _:
            pass


def _place_above(problem: Problem, missing: dict[str, TaggedUnion]) -> str | None:
    above = [place for place in missing if f"{problem.path}/".startswith(f"{place}/")]
    return max(above, key=len, default=None)


def _no_tag(place: str, union: TaggedUnion, code: str) -> Problem:
    tags = ", ".join(f'"{tag}"' for tag in union.variants)
    return Problem.of(
        place,
        code,
        f"a member `{union.member}` that is one of {tags}",
        found=f"an object without `{union.member}`",
    )
