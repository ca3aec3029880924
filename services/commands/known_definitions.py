"""The definitions that agents would have now, by the settings and the tools that are announced."""

from collections.abc import Collection, Mapping

from answerbus.client.bus import Bus
from answerbus.private.runs import AgentDefinition, ToolDefinition
from answerbus.toolset_card import ToolsetCard
from services.settings.settings import Settings
from services.tools.caller import cards
from services.worker.adapters.agents import known_agents
from services.worker.core.run.agents import agent_id


async def known_definitions(
    bus: Bus, settings: Settings, names: Collection[str] | None = None
) -> Mapping[str, AgentDefinition]:
    """By their digests, those of the agents of these names, or of all. Raises BusUnavailable."""
    tools = {
        f"{card.toolset}.{one.name}": ToolDefinition(
            toolset=card.toolset, card=one, written_by=card.written_by
        )
        for card in await cards(bus)
        if isinstance(card, ToolsetCard)
        for one in card.tools
    }
    agents = known_agents(settings.agents)
    found = [
        agents.freeze(ref, tools) for ref in agents.refs() if names is None or ref.name in names
    ]
    return {agent_id(one).digest: one for one in found if isinstance(one, AgentDefinition)}
