"""Why a child that an agent is to work on cannot be asked: said in the step that asks it."""

import asyncio
from typing import Any

import pytest

from answerbus.agent import AgentRef
from answerbus.failure import Problem
from answerbus.private.runs import AgentDefinition, BestOf, Delegation, ToolDefinition
from answerbus.registry import Registry
from answerbus.request import InlineRef, Request
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.schema.resolved import JsonObject
from services.worker.dialects.dispatch import DialectName
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, BackendChange, Planner
from services.worker.planning.schema_compiler import SchemaCompiler
from services.worker.ports.costly_work import InPlace
from tests.unit.worker.core.run_builders import asked, tool
from tests.unit.worker.lane.world import FakeProvider

STATE: JsonObject = {"type": "object", "properties": {"state": {"enum": ["shipped", "lost"]}}}


def choices(count: int, name: str = "p") -> JsonObject:
    """A form with so many values in lists."""
    values = [f"{name}-{number}" for number in range(count)]
    return {"type": "object", "properties": {name: {"type": "string", "enum": [*values]}}}


def planner(*agents: Agent, tools: tuple[ToolDefinition, ...] = (), **more: DialectName) -> Planner:
    backends = {}
    for name, dialect in {"default": "openai", **more}.items():
        facts = ProfileFacts(name, "fake", "m", 100, 60.0, None)
        backends[name] = Backend(facts, dialect, FakeProvider(), ProfileLimiter(9))
    known = {one.name: one for one in tools}
    return Planner(backends, Registry(), agents=Agents(agents), tools=known)


def agent(*tools: ToolDefinition, **more: Any) -> Agent:
    outline = AgentDefinition(name="reader", version=1, instructions="Read.", **more)
    return Agent(outline, tuple(one.name for one in tools))


def child(schema: JsonObject, **more: Any) -> Request:
    ref = InlineRef(name="part", description="d", json_schema=schema)
    return asked().model_copy(
        update={"answer_schema": ref, "agent": AgentRef(name="reader"), **more}
    )


def problems(of: Planner, request: Request) -> tuple[Problem, ...]:
    """As a lane has them: what takes long is done before."""
    asyncio.run(of.look_ahead(request))
    return of.problems_of(request)


def test_a_child_of_an_agent_can_be_asked_as_one_without() -> None:
    assert (
        problems(planner(agent(tool(), delegate=Delegation()), tools=(tool(),)), child(STATE)) == ()
    )


def test_a_schema_that_its_step_has_no_room_for_is_described_in_words() -> None:
    tools = tuple(tool(f"t.get{n}", choices(150, f"of{n}")) for n in range(5))
    of = planner(agent(*tools), tools=tools, loose="prompted")

    (problem,) = problems(of, child(choices(400)))
    assert (problem.path, problem.code) == ("/json_schema", "unsupported_schema")
    assert "at most 1000 enum values" in problem.expected
    assert problems(of, child(choices(400), agent=None)) == ()
    assert problems(of, child(choices(100))) == ()
    assert problems(of, child(choices(400), profile="loose")) == ()


def test_an_agent_that_proposes_a_contract_takes_no_schema_of_a_model() -> None:
    (problem,) = problems(planner(agent(best_of=BestOf(propose="proposal"))), child(STATE))

    assert (problem.path, problem.code) == ("/agent", "contract")
    assert problems(planner(agent(best_of=BestOf())), child(STATE)) == ()


@pytest.mark.parametrize(
    ("more", "path", "code"),
    [
        ({"agent": AgentRef(name="nobody")}, "/agent", "unknown_agent"),
        ({"agent": AgentRef(name="reader", version=7)}, "/agent", "unknown_agent"),
        ({"profile": "nowhere"}, "/profile", "unknown_profile"),
    ],
)
def test_names_that_are_unknown_are_reported(more: dict[str, Any], path: str, code: str) -> None:
    (problem,) = problems(planner(agent(tool()), tools=(tool(),)), child(STATE, **more))

    assert (problem.path, problem.code) == (path, code)


def test_an_agent_whose_tools_are_missing_is_reported() -> None:
    (problem,) = problems(planner(agent(tool())), child(STATE))

    assert (problem.path, problem.code) == ("/agent", "missing_tools")


def test_a_fault_of_the_schema_itself_is_reported_with_its_place() -> None:
    (problem,) = problems(planner(agent()), child({"type": "strin"}))

    assert problem.path == "/json_schema/type"


def test_a_profile_that_a_reload_removes_while_a_schema_is_compiled_is_reported() -> None:
    """A paid answer was lost with its lane (`KeyError`)."""

    class Removing(InPlace):
        async def run(self, *args: Any, **more: Any) -> Any:
            of.change(BackendChange({}, gone=["default"]), of.agents)
            return await super().run(*args, **more)

    of = planner(agent())
    of._compiler = SchemaCompiler(of._schemas, Removing())

    (problem,) = problems(of, child(choices(100)))
    assert (problem.path, problem.code) == ("/profile", "unknown_profile")
