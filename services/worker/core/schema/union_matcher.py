"""Where an answer meets unions with tags: a walk over its schema along with it."""

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from services.worker.core.guard.effort import spend
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import AnySchema, JsonObject
from services.worker.core.schema.tagged_unions import (
    UNIONS,
    TaggedUnion,
    in_place,
    listed,
    read_union,
)

STEPS_MAX = 100_000  # of looking at a schema for a value: some tenths of a second
STEP_NS = 3_000
_STEPS_AT_ONCE = 500  # are paid for together


class TooManyStepsError(Exception):
    """There are too many alternatives for too large a value: it is left as it is."""


class UnionMatcher:
    """Looks at one schema document; counts its steps."""

    def __init__(self, document: Document) -> None:
        """No step is taken yet."""
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
