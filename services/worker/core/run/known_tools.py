"""The tools that tool servers have announced: each card is looked at before any agent has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolsetCard
from services.worker.core.schema.validator import SchemaValidator, compile_schema


@dataclass(slots=True)
class KnownTools:
    """The last card of each toolset that was taken; `pins` are digests that they must have.

    A card that is not taken changes nothing: the tools of the one before stay.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # why, by toolset

    def take(self, card: ToolsetCard) -> str | None:
        """Take a card; gives why it is not taken, for people."""
        if fault := self._fault(card):
            self.refused[card.toolset] = fault
            return fault
        self.end(card.toolset)
        for tool in card.tools:
            found = ToolDefinition(toolset=card.toolset, card=tool)
            self.tools[found.name] = found
        return None

    def end(self, toolset: str) -> None:
        """The toolset is not served any more."""
        self.refused.pop(toolset, None)
        for name in [name for name, tool in self.tools.items() if tool.toolset == toolset]:
            del self.tools[name]

    def _fault(self, card: ToolsetCard) -> str | None:
        pinned = self.pins.get(card.toolset)
        if pinned is not None and card.computed_digest() != pinned:
            return f"the settings pin it to {pinned}, and it is {card.computed_digest()}"
        for tool in card.tools:
            if not isinstance(compile_schema(tool.args_schema), SchemaValidator):
                return f"the schema of {tool.name} cannot be taken"
        return None
