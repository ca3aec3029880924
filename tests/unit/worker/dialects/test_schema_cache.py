"""Compiled schemas are kept by the bytes of their text, each for its own requests alone."""

from typing import Any

import pytest

from answerbus.registry import Registry
from answerbus.request import InlineRef, TextRef
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.schema_cache import MEMORY_PER_BYTE, SchemaCache

MEBIBYTE = 1024 * 1024


def ref(number: int = 0, **changes: Any) -> InlineRef:
    schema: dict[str, Any] = {
        "type": "object",
        "description": "x" * 2000,
        "properties": {"n": {"const": number}},
    }
    return InlineRef(name="n", wrapped=False, json_schema=schema).model_copy(update=changes)


def asked(cache: SchemaCache, wanted: InlineRef) -> ResolvedSchema:
    compiled = cache.compiled(wanted, "openai")
    assert not isinstance(compiled, Unusable)
    return compiled[0]


def test_the_same_schema_is_compiled_once() -> None:
    cache = SchemaCache(Registry([]))

    assert asked(cache, ref()) is asked(cache, ref())


@pytest.mark.parametrize(
    "other",
    [ref(1), ref(name="m"), ref(wrapped=True), ref(description="d"), ref(json_schema=True)],
)
def test_another_request_gets_its_own(other: InlineRef) -> None:
    cache = SchemaCache(Registry([]))

    assert asked(cache, ref()) is not asked(cache, other)


def test_each_dialect_has_its_own_wire_schema() -> None:
    cache = SchemaCache(Registry([]))
    openai, prompted = cache.compiled(ref(), "openai"), cache.compiled(ref(), "prompted")

    assert not isinstance(openai, Unusable)
    assert not isinstance(prompted, Unusable)
    assert (openai[1].dialect, prompted[1].dialect) == ("openai", "prompted")


@pytest.mark.wide
def test_the_automata_of_patterns_count_by_their_memory() -> None:
    """Seven megabytes each, from 200 characters."""
    cache = SchemaCache(Registry([]), bytes_max=2 * MEBIBYTE)
    for n in range(24):
        patterns = {name: {"pattern": f"[^a]{{1,900}}{n}{name}"} for name in "ab"}
        asked(cache, ref(json_schema={"properties": patterns}))
    kept = [entry.compiled for entry in cache._entries.values()]
    automata = sum(one[0].pattern_bytes for one in kept if not isinstance(one, Unusable))
    assert 0 < automata <= 2 * MEBIBYTE * MEMORY_PER_BYTE
    assert 0 < len(kept) < 24


def test_the_least_recently_used_gives_way() -> None:
    cache = SchemaCache(Registry([]), bytes_max=7000)
    first, second = asked(cache, ref(1)), asked(cache, ref(2))
    assert asked(cache, ref(1)) is first
    asked(cache, ref(3))
    asked(cache, ref(4))  # there is room for three of them

    assert asked(cache, ref(1)) is first
    assert asked(cache, ref(2)) is not second


def test_what_is_larger_than_the_whole_cache_pushes_nothing_out() -> None:
    cache = SchemaCache(Registry([]), bytes_max=3000)
    kept = asked(cache, ref(1))
    asked(cache, ref(2, description="d" * 2000))

    assert asked(cache, ref(1)) is kept


def test_refusals_are_kept_and_weigh_little() -> None:
    cache = SchemaCache(Registry([]), bytes_max=4000)
    kept = asked(cache, ref(1))
    hostile = InlineRef(name="h", json_schema={"$ref": "file:///" + "x" * 60_000})
    refused = cache.compiled(hostile, "openai")

    assert isinstance(refused, Unusable)
    assert cache.compiled(hostile, "openai") is refused
    assert asked(cache, ref(1)) is kept
    assert not isinstance(cache.compiled(TextRef(), "openai"), Unusable)
