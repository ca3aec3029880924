"""What a run may do next is compiled apart from the event loop, once, and before it is asked."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from answerbus.limits import AGENT_TOOLS_MAX
from answerbus.private.runs import AgentDefinition
from answerbus.registry import Registry
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.run.run import Run
from services.worker.core.run.step_schema import resolve_step
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, Planner
from services.worker.ports.costly_work import InPlace
from tests.unit.worker.builders import request
from tests.unit.worker.core.run_builders import tool
from tests.unit.worker.lane.world import FakeProvider

TOOLS = {one.name: one for one in (tool(f"orders.t{n}") for n in range(AGENT_TOOLS_MAX))}
ASKED = request("r-1", "w-1", agent={"name": "support"}, answer_schema={"kind": "text"})


class InThread(InPlace):
    async def run(self, owner: str, work: Any, *args: Any, **_: Any) -> Any:
        return await asyncio.to_thread(work, *args)


def planner() -> Planner:
    facts = ProfileFacts("default", "fake", "m", 100, 60.0, None)
    backend = Backend(facts, "prompted", FakeProvider(), ProfileLimiter(1))
    agent = Agent(AgentDefinition(name="support", version=1, instructions="Help."), tuple(TOOLS))
    agents = Agents([agent])
    return Planner({"default": backend}, Registry(), b"", agents, TOOLS, InThread())


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By which thread each schema of a step was made."""
    found: list[int] = []
    make: Callable[..., Any] = resolve_step

    def noted(*arguments: Any, **named: Any) -> Any:
        found.append(threading.get_ident())
        return make(*arguments, **named)

    monkeypatch.setattr("services.worker.planning.step_schemas.resolve_step", noted)
    return found


async def step_of(of: Planner, **more: Any) -> Plan:
    asked = ASKED.model_copy(update=more)
    run = of.begin_run(asked)
    assert isinstance(run, Run)
    plan = await of.plan_step(asked, run, is_last_attempt=False)
    assert isinstance(plan, Plan)
    return plan


async def test_requests_that_ask_for_the_same_wait_for_one_compilation_in_a_thread(
    threads: list[int],
) -> None:
    of = planner()
    first, *rest = await asyncio.gather(*(step_of(of) for _ in range(5)))

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    assert all(plan.wire is first.wire for plan in rest)
    assert "orders.t0" in first.wire.instructions


async def test_what_agents_may_do_is_compiled_before_they_are_asked(threads: list[int]) -> None:
    of = planner()
    await of.prepare_agents()
    assert len(threads) == 2  # with tools, and for the last step
    assert threading.get_ident() not in threads

    await step_of(of)
    assert len(threads) == 2


async def test_a_request_that_goes_while_its_schema_is_compiled_leaves_it_to_the_others() -> None:
    of = planner()
    first, second = (asyncio.ensure_future(step_of(of)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert isinstance(await second, Plan)
    assert first.cancelled()


async def test_an_agent_whose_tools_are_not_announced_is_passed_by(threads: list[int]) -> None:
    of = planner()
    of.tools = {}
    await of.prepare_agents()

    assert threads == []
