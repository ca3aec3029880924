"""What workers with agents have in histories: a few agents, and the tools of one toolset."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from answerbus.policy import ToolPolicy
from answerbus.private.runs import AgentDefinition, BestOf, Delegation, ToolDefinition
from answerbus.registry import Registry
from answerbus.topics import TOOL_RESULTS, tool_calls
from services.worker.adapters.agents import complete
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.run.tool_access import ToolAccess
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import Compiled, SchemaCache
from services.worker.lane.context import RunSetup
from services.worker.planning.planner import Backend, Planner
from services.worker.planning.schema_compiler import SchemaCompiler
from services.worker.ports.costly_work import InPlace
from tests.unit.worker.core.run_builders import tool

PREFIX = "sim"
TOOL_CALLS = tool_calls("orders")
CALLS = TOOL_CALLS.full_name(PREFIX)
STEPS_MAX = 6
TOOL_CANARY = "a description of a tool"  # which belongs behind a fence
TOOLS: Mapping[str, ToolDefinition] = {
    one.name: one
    for one in (
        tool("orders.get", description=TOOL_CANARY),
        tool("orders.ship", approval="after_untrusted", timeout_s=10.0),
        tool("orders.pay", delivery="at_most_once", approval="always"),
        tool("orders.state", repeatable=True),
        tool("orders.refund", delivery="at_most_once", reconcilable=True, timeout_s=10.0),
        tool("orders.book", delivery="at_most_once", timeout_s=10.0),
        tool("orders.pack", timeout_s=10.0),
        tool(
            "orders.claim",
            delivery="at_most_once",
            approval="always",
            reconcilable=True,
            timeout_s=10.0,
        ),
    )
}
ASKING_TOOLS = ("book", "pack", "claim")  # their servers keep states, and ask people
ONCE_TOOLS = ("pay", "book")  # they may run once, and nobody can find out whether they did
FOUND_OUT_TOOLS = ("refund", "claim")
JUDGED_TOOLS = ("ship", "pay")
DENIED_ORDER, ASKED_ORDER = "9", "8"  # of what they are asked for


def _rule_on(order_id: str) -> dict[str, Any]:
    args = {"properties": {"order_id": {"const": order_id}}, "required": ["order_id"]}
    return {"properties": {"args": args}, "required": ["args"]}


POLICY = ToolPolicy(deny=_rule_on(DENIED_ORDER), ask=_rule_on(ASKED_ORDER), otherwise="allow")
BEST_OF = "best-of"
SUPPORT = ("support-1", "support-2", "support-8")  # so many calls at once
ASKS_NOBODY = "support-2"  # the agent that may not ask people
LEADS: Mapping[str, Delegation] = {  # they delegate, also to each other
    "lead-pool": Delegation(depth_max=2, children_max=6, agents=("lead-equal", "best-of")),
    "lead-equal": Delegation(
        depth_max=3, children_max=3, split="equal", agents=("lead-pool", "support-8")
    ),
}


def _agent(name: str, parallel: int, asks: bool, delegate: Delegation | None = None) -> Agent:
    definition = AgentDefinition(
        name=name,
        version=1,
        instructions="Help.",
        steps_max=STEPS_MAX,
        parallel_max=parallel,
        reconcile_max=min(parallel, 3),
        delegate=delegate,
        ask_person=asks and name != ASKS_NOBODY,
    )
    return Agent(
        definition,
        tuple(_tools(asks)),
        policies={f"orders.{name}": POLICY for name in JUDGED_TOOLS},
    )


def _tools(asks: bool) -> dict[str, ToolDefinition]:
    tools = TOOLS.items()
    return {name: one for name, one in tools if asks or one.card.name not in ASKING_TOOLS}


_BEST = AgentDefinition(name=BEST_OF, version=1, instructions="Help.", best_of=BestOf(n=3))


def _agents(asks: bool) -> Agents:
    return Agents(
        (
            *(_agent(name, int(name.rpartition("-")[2]), asks) for name in SUPPORT),
            *(_agent(name, 4, asks, delegate) for name, delegate in LEADS.items()),
            Agent(_BEST),
        )
    )


AGENTS: Mapping[bool, Agents] = {asks: _agents(asks) for asks in (False, True)}  # may ask people
# Compiling takes longer than all else in a history, and has nothing to do with its faults.
_SCHEMAS = SchemaCache(Registry())


class _CompilerWithoutTurns(SchemaCompiler):
    """What was compiled in an earlier history takes as many turns of the loop as what was not."""

    async def compiled(
        self,
        text: str,
        resolved: Callable[[], ResolvedSchema | Unusable],
        dialect: DialectName,
        owner: str,
    ) -> Compiled:
        return self._cache.kept(text, resolved, dialect)


def planner(backends: Mapping[str, Backend], *, asks: bool) -> Planner:
    """Of one worker, in histories in which people are asked or in others."""
    found = Planner(backends, Registry(), agents=AGENTS[asks], tools=_tools(asks))
    found._schemas, found._compiler = _SCHEMAS, _CompilerWithoutTurns(_SCHEMAS, InPlace())
    return found


def run_setup(chance: random.Random, *, asks: bool) -> RunSetup:
    """Of one worker; tokens are by its own chance."""
    return RunSetup(
        is_on=True,
        tools=ToolAccess(chance.randbytes, TOOL_RESULTS.full_name(PREFIX)),
        complete=partial(complete, AGENTS[asks]),
    )


Json = dict[str, Any]
DelayedReply = tuple[float, Json]  # after so many seconds
