"""Large schemas of requests are compiled in a process that can be ended, and refused at a limit."""

import functools
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, get_args

import pytest
from pydantic import JsonValue

from answerbus.dead_letter import HostileSchema
from answerbus.registry import Registry
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.adapters.costly_work.pickled import dumps, loads
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import SchemaCache, compiled_for
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, Planner
from services.worker.planning.schema_compiler import IN_PLACE_CHARS_MAX, is_small
from services.worker.ports.costly_work import CostlyWork, InPlace, WorkLimits
from tests.cost.budget import ANYBODY, MARGIN, spent
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import request
from tests.unit.worker.lane.world import FakeProvider

pytestmark = pytest.mark.wide

# Lowering this takes 2.6 s.
MERGED = {"allOf": [{"required": [f"a{n}"]} for n in range(2000)]}


def asked(schema: dict[str, Any]) -> Any:
    return request(answer_schema={"kind": "inline", "name": "thing", "json_schema": schema})


def planner(costly_work: CostlyWork) -> Planner:
    facts = ProfileFacts("default", "fake", "m", 100, 60.0, None)
    backend = Backend(facts, "openai", FakeProvider(), ProfileLimiter(1))
    return Planner({"default": backend}, Registry(), costly_work=costly_work)


@pytest.fixture
async def child() -> AsyncIterator[ChildProcess]:
    process = ChildProcess()
    yield process
    await process.close()


async def test_a_large_schema_is_compiled_elsewhere_and_used_here(child: ChildProcess) -> None:
    properties = {f"member_{n}": {"type": "string", "maxLength": 9} for n in range(300)}
    of, large = planner(child), asked({"type": "object", "properties": properties})
    assert len(large.answer_schema.model_dump_json()) > IN_PLACE_CHARS_MAX

    plan = of.plan(large, await of.prepare(large))

    assert isinstance(plan, Plan)
    assert plan.wire.schema is not None
    answer: JsonValue = {
        "output": {"member_0": "x"},
        "success": True,
        "notes": [],
        "failure_reason": "",
    }
    alone = planner(InPlace())
    in_place = alone.plan(large, await alone.prepare(large))
    assert isinstance(in_place, Plan)
    assert plan.schema.read(answer) == in_place.schema.read(answer)


# The costliest of their size, found by search.
SHORT: list[dict[str, Any]] = [
    {"properties": {name: {} for name in "abcdefghijklmnopqrstuvwxyz0123456789"}},
    {"allOf": [{"required": [f"{n}"]} for n in range(18)]},
    functools.reduce(lambda inner, _: {"items": inner}, range(29), dict[str, Any]()),
    {"anyOf": [{"const": n} for n in range(26)]},
    {"oneOf": [{"properties": {f"{n}": {}}} for n in range(14)]},
]


PATTERNS: list[dict[str, Any]] = [
    {"type": "string", "pattern": "a?" * 190},
    {"patternProperties": {r"^[\p{L}]{1,50}$": {}}},
    {"properties": {name: {"pattern": f"[^a]{{1,900}}{name}"} for name in "abcdefg"}},
]


@pytest.mark.parametrize("schema", PATTERNS)
def test_a_schema_with_a_pattern_is_not_compiled_in_the_loop(schema: dict[str, Any]) -> None:
    ref = asked(schema).answer_schema
    assert not is_small(ref, SchemaCache(Registry()).reading(ref)[0])


@pytest.mark.parametrize("schema", SHORT)
@pytest.mark.parametrize("dialect", get_args(DialectName))
def test_what_is_compiled_in_the_loop_holds_it_for_some_milliseconds(
    schema: dict[str, Any], dialect: DialectName
) -> None:
    text, resolved = SchemaCache(Registry()).reading(asked(schema).answer_schema)
    assert is_small(asked(schema).answer_schema, text)

    took = spent(partial(compiled_for, resolved, dialect))

    assert took.is_below(MARGIN * ANYBODY.loop_s), took


def test_patterns_that_take_long_to_compile_are_not_compiled_again_where_a_loop_waits() -> None:
    found = compile_schema({"pattern": "a?" * 6_000})
    assert isinstance(found, SchemaValidator)
    frame = dumps(found)

    took = spent(partial(loads, frame))
    arrived = loads(frame)

    assert took.is_below(MARGIN * ANYBODY.loop_s), took
    with sparing(), pytest.raises(TooMuchWorkError):
        arrived.problems("a")
    assert arrived.problems("a") == ()


def test_a_large_schema_that_nobody_has_prepared_is_not_compiled_in_the_loop() -> None:
    found = planner(InPlace()).plan(asked(MERGED))

    assert isinstance(found, HostileSchema)
    assert [problem.code for problem in found.problems] == ["too_costly"]


async def test_a_schema_that_takes_too_long_is_refused_and_never_holds_the_loop() -> None:
    child = ChildProcess(WorkLimits(cpu_s=0))
    of, costly = planner(child), asked(MERGED)

    with cpu_time() as cpu:
        found = of.plan(costly, await of.prepare(costly))
    await child.close()

    assert isinstance(found, HostileSchema)
    assert [problem.code for problem in found.problems] == ["too_costly"]
    assert cpu.is_below(0.5)
