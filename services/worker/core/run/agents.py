"""Agents as the operator defines them, and the definition that is frozen into a run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from answerbus.agent import AgentId, AgentRef
from answerbus.cause import MissingTools, UnknownAgent
from answerbus.limits import DEFINITION_BYTES_MAX
from answerbus.policy import ToolPolicy
from answerbus.private.runs import AgentDefinition, ToolDefinition
from answerbus.request import Request
from answerbus.toolset_card import ApprovalRule, stricter
from services.text.digest import canonical_digest, text_digest
from services.worker.core.json_schema.keywords import JsonObject


@dataclass(frozen=True, slots=True)
class Agent:
    """What the operator says of an agent: all but what its tools say of themselves.

    `approvals` are rules by tool, which a card can only make stricter. `policies` are on arguments;
    with `policy_for_open_runs` they hold for open runs, too, where they are stricter.
    """

    outline: AgentDefinition
    tools: tuple[str, ...] = ()
    approvals: Mapping[str, ApprovalRule] = field(default_factory=dict)
    policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    policy_for_open_runs: bool = False
    trusted: tuple[str, ...] = ()


Tools = Mapping[str, ToolDefinition]
"""The cards of tool servers, by qualified name."""


class Agents:
    """The agents that a worker knows, by name and version."""

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        self._known = {(agent.outline.name, agent.outline.version): agent for agent in agents}
        self._newest: dict[str, int] = {}
        for name, version in sorted(self._known):
            self._newest[name] = version

    def __len__(self) -> int:
        return len(self._known)

    def refs(self) -> Iterator[AgentRef]:
        for name, version in sorted(self._known):
            yield AgentRef(name=name, version=version)

    @property
    def digests(self) -> dict[str, str]:
        """Of what the operator says of each agent, such as of `support.v3`; not of its tools."""
        return {f"{name}.v{version}": _digest(one) for (name, version), one in self._known.items()}

    @property
    def toolsets(self) -> frozenset[str]:
        """Those that any of the agents names a tool of."""
        names = (name for agent in self._known.values() for name in agent.tools)
        return frozenset(name.partition(".")[0] for name in names)

    @property
    def guarded(self) -> frozenset[str]:
        """The tools for which the settings of any agent ask for approval, or have a policy."""
        rules = (rule for agent in self._known.values() for rule in agent.approvals.items())
        policies = (agent.policies for agent in self._known.values())
        return frozenset(name for name, rule in rules if rule != "never").union(*policies)

    def find(self, ref: AgentRef) -> Agent | None:
        """The agent that a request names."""
        version = self._newest.get(ref.name) if ref.version is None else ref.version
        return None if version is None else self._known.get((ref.name, version))

    def current_policy(self, agent: AgentId, tool: str) -> ToolPolicy | None:
        """The current settings of the tool, where they hold for open runs.

        Where they lack the version that the run began with, those of the newest hold.
        """
        newest = self._newest.get(agent.name, agent.version)
        known = self._known.get((agent.name, agent.version)) or self._known.get(
            (agent.name, newest)
        )
        return known.policies.get(tool) if known and known.policy_for_open_runs else None

    def with_budget(self, request: Request) -> Request:
        """The request with its agent's budget, where it has none: three attempts suit no loop.

        It still names none: what it has is added to what its workflow has.
        """
        if request.agent is None or request.names_budget:
            return request
        if (agent := self.find(request.agent)) is None:
            return request
        completed = request.model_copy(update={"budget": agent.outline.budget})
        completed.model_fields_set.discard("budget")
        return completed

    def freeze(self, ref: AgentRef, tools: Tools) -> AgentDefinition | UnknownAgent | MissingTools:
        """The definition of a run that begins now; a request can only leave tools out."""
        agent = self.find(ref)
        if agent is None or not set(ref.tools or ()) <= set(agent.tools):
            return UnknownAgent()
        chosen = agent.tools if ref.tools is None else ref.tools
        if missing := tuple(name for name in chosen if name not in tools):
            return MissingTools(tools=missing)
        found = _ruled(agent, [tools[name] for name in chosen])
        definition = agent.outline.model_copy(update={"tools": tuple(found)})
        # What no record of a run could hold was not announced for this agent.
        fits = len(definition.model_dump_json().encode()) <= DEFINITION_BYTES_MAX
        return definition if fits else MissingTools(tools=chosen)


def _digest(agent: Agent) -> str:
    outline = agent.outline.model_dump(mode="json")
    said: JsonObject = {"tools": [*agent.tools], "approvals": {**agent.approvals}}
    if agent.policies:
        said["policy"] = {name: one.model_dump(mode="json") for name, one in agent.policies.items()}
        said["policy_for_open_runs"] = agent.policy_for_open_runs
    if agent.trusted:
        said["trusted"] = [*agent.trusted]
    return canonical_digest({**outline, **said})


def _ruled(agent: Agent, tools: Sequence[ToolDefinition]) -> Iterable[ToolDefinition]:
    for tool in tools:
        rule = stricter(agent.approvals.get(tool.name, "never"), tool.card.approval)
        card = tool.card.model_copy(update={"approval": rule})
        ruled = {"policy": agent.policies.get(tool.name), "trusted": tool.name in agent.trusted}
        yield tool.model_copy(update={"card": card, **ruled})


def agent_id(definition: AgentDefinition) -> AgentId:
    """The definition as events name it."""
    digest = text_digest(definition.model_dump_json())
    return AgentId(name=definition.name, version=definition.version, digest=digest)
