"""Answers to unions without their tags: accepted if only one meaning fits."""

from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.limits import PROBLEMS_MAX
from answerbus.problems import pointer
from services.worker.core.guard.effort import spend
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, JsonObject
from services.worker.core.schema.tagged_unions import (
    UNIONS,
    TaggedUnion,
    in_place,
    listed,
    read_union,
    required,
)

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
        """What applies to a member or an item of a value that `schemas` apply to."""
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
