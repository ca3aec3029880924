"""From settings to the agents that the core knows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from answerbus.private.runs import AgentDefinition
from services.settings.agents import AgentError, AgentSettings, installed_agents, unknown_names
from services.settings.settings import Settings, SetUpError
from services.worker.core.request.admit import Admitted
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.run.policy import faults_of, optional_in_allow


def known_agents(settings: Mapping[str, AgentSettings]) -> Agents:
    """Those of the settings, and of distributions. Raises SetUpError."""
    named = [*_all(settings)]
    for name, agent in named:
        for tool, policy in agent.policy.items():
            for fault in faults_of(policy):
                raise SetUpError(
                    f"The policy of the agent {name!r} for {tool!r} is unusable: {fault}."
                )
    return Agents(_agent(*one) for one in named)


def pins_of(settings: Mapping[str, AgentSettings]) -> dict[str, str]:
    """The digests that cards of toolsets must have, by toolset.

    Raises SetUpError where two agents pin one toolset to different cards: it has one at a time.
    """
    pins: dict[str, tuple[str, str]] = {}
    for name, agent in _all(settings):
        for toolset, digest in agent.pins.items():
            other, pinned = pins.setdefault(toolset, (name, digest))
            if pinned != digest:
                raise SetUpError(
                    f"The agents {other!r} and {name!r} pin the toolset {toolset!r} to different "
                    "digests: give both the one of the card that they shall have."
                )
    return {toolset: digest for toolset, (_, digest) in pins.items()}


def advice_on(settings: Settings) -> list[str]:
    """What agents name and what there is not, and rules that allow more than they seem to."""
    agents = dict(_all(settings.agents))
    return [*unknown_names(agents, settings.profiles), *_loose_rules(agents)]


def _loose_rules(agents: Mapping[str, AgentSettings]) -> Iterator[str]:
    for name, agent in sorted(agents.items()):
        for tool, policy in sorted(agent.policy.items()):
            if optional := optional_in_allow(policy):
                yield (
                    f"the policy of the agent {name!r} for {tool!r} allows calls that lack "
                    f"{' or '.join(map(repr, optional))}: list in `required` what `allow` looks at"
                )


def _all(settings: Mapping[str, AgentSettings]) -> Iterator[tuple[str, AgentSettings]]:
    try:
        found = installed_agents()
    except AgentError as error:
        raise SetUpError(str(error)) from error
    return chain(found.items(), settings.items())


def complete(agents: Agents, admitted: Admitted) -> Admitted:
    """An admitted request with what its agent adds."""
    return replace(admitted, request=agents.with_budget(admitted.request))


def _agent(name: str, settings: AgentSettings) -> Agent:
    said = {key: value for key, value in settings if key in AgentDefinition.model_fields}
    said.pop("tools")
    return Agent(
        AgentDefinition(name=name, **said),
        settings.tools,
        settings.approvals,
        settings.policy,
        settings.policy_for_open_runs,
        settings.trusted,
    )
