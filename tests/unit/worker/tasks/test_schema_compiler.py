"""Large schemas of requests are compiled in a process that can be ended, and refused at a limit."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.dead_letter import HostileSchema
from answerbus.registry import Registry
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.costly_work import CostlyWork, InPlace, WorkLimits
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.plans import IN_PLACE_CHARS_MAX, Backend, Planner
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import request
from tests.unit.worker.lane.world import FakeProvider

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
    in_place = planner(InPlace()).plan(large)
    assert isinstance(in_place, Plan)
    assert plan.schema.read(answer) == in_place.schema.read(answer)


async def test_a_schema_that_takes_too_long_is_refused_and_never_holds_the_loop() -> None:
    child = ChildProcess(WorkLimits(cpu_s=0))
    of, costly = planner(child), asked(MERGED)

    with cpu_time() as cpu:
        found = of.plan(costly, await of.prepare(costly))
    await child.close()

    assert isinstance(found, HostileSchema)
    assert [problem.code for problem in found.problems] == ["too_costly"]
    assert cpu.is_below(0.5)
