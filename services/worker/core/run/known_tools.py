"""The tools that tool servers have announced: each card is looked at before any agent has it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolCard, ToolsetCard, WrittenBy, stricter
from services.worker.core.schema.validator import SchemaValidator, compile_schema

_Guarded = tuple[WrittenBy, ToolCard]

NO_TOPIC = "the topic of its calls does not exist, or there is no right to see it"


@dataclass(slots=True)
class KnownTools:
    """The last card of each toolset that was taken; `pins` are digests that they must have.

    A card that is not taken changes nothing: the tools of the one before stay. A toolset has no
    tools while the topic of its calls is not there. A tool that needs approval, by its card or by
    `guarded`, the settings of agents, stays as it was first seen until its toolset is pinned.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # why, by toolset
    refusals: Counter[str] = field(default_factory=Counter)  # records that were not taken
    guarded: Callable[[], Collection[str]] = tuple
    _guards: dict[str, _Guarded] = field(default_factory=dict)  # tools that need approval
    _taken: dict[str, ToolsetCard] = field(default_factory=dict)
    _last: dict[str, tuple[ToolsetCard, str | None]] = field(default_factory=dict)  # seen of each
    _has_topic: Callable[[str], bool] = lambda _: True

    @property
    def waits_for_topics(self) -> bool:
        """Whether a card was announced for a toolset that has no topic."""
        return NO_TOPIC in self.refused.values()

    def take(self, card: ToolsetCard) -> str | None:
        """Take a card; gives why it is not taken, for people."""
        return self.settle(card, schema_fault(card))

    def settle(self, card: ToolsetCard, unusable: str | None) -> str | None:
        """The same, once it is known what is wrong with its schemas."""
        self._last[card.toolset] = card, unusable
        fault = self._settle(card, unusable)
        if fault and fault != NO_TOPIC:
            self.refusals[card.toolset] += 1
        return fault

    def refuse(self, toolset: str, fault: str) -> None:
        """A record in the toolset's topic that is none of its cards; what was taken stays."""
        self.refused[toolset] = fault
        self.refusals[toolset] += 1

    def notes(self) -> list[str]:
        """In a sentence each, what an operator should know of toolsets."""
        return [f"toolset {name}: {fault}" for name, fault in sorted(self.refused.items())]

    def _settle(self, card: ToolsetCard, unusable: str | None) -> str | None:
        if fault := self._pin_fault(card) or unusable or self._change_fault(card):
            self.refused[card.toolset] = fault
            return fault
        self._taken[card.toolset] = card
        self._guard(card)
        return self._offer(card)

    def end(self, toolset: str) -> None:
        """The toolset is not served any more."""
        self._last.pop(toolset, None)
        self._drop(toolset)

    def pin(self, pins: Mapping[str, str]) -> None:
        """Other pins hold: a card that was taken may have to go, and one that was not may come."""
        self.pins = pins
        for toolset, last in [*self._last.items()]:
            taken = self._taken.get(toolset)
            if taken and self._pin_fault(taken):
                self._drop(toolset)
            self._settle(*last)

    def look(self, has_topic: Callable[[str], bool]) -> list[str]:
        """Say which toolsets have a topic; gives those that have lost theirs."""
        before, self._has_topic = self._has_topic, has_topic
        changed = [card for name, card in self._taken.items() if before(name) != has_topic(name)]
        return [card.toolset for card in changed if self._offer(card)]

    def _offer(self, card: ToolsetCard) -> str | None:
        """Replace the tools of its toolset; gives why there are none."""
        self._withdraw(card.toolset)
        if not self._has_topic(card.toolset):
            self.refused[card.toolset] = NO_TOPIC
            return NO_TOPIC
        self.refused.pop(card.toolset, None)
        for tool in card.tools:
            found = ToolDefinition(toolset=card.toolset, card=tool, written_by=card.written_by)
            self.tools[found.name] = found
        return None

    def _drop(self, toolset: str) -> None:
        self.refused.pop(toolset, None)
        self._taken.pop(toolset, None)
        self._withdraw(toolset)

    def _withdraw(self, toolset: str) -> None:
        for name in [name for name, tool in self.tools.items() if tool.toolset == toolset]:
            del self.tools[name]

    def _guard(self, card: ToolsetCard) -> None:
        for name, tool in _named(card):
            if tool.approval != "never" or name in self._guards or name in self.guarded():
                self._guards[name] = card.written_by, tool

    def _change_fault(self, card: ToolsetCard) -> str | None:
        """A server cannot change by itself what people approve, nor that they are asked."""
        if card.toolset in self.pins:
            return None
        changed = [
            name
            for name, tool in _named(card)
            if (known := self._guards.get(name)) and _is_changed(known, (card.written_by, tool))
        ]
        if not changed:
            return None
        return (
            f"{', '.join(changed)} need approval and have changed: look at them with `answerbus "
            f"tools list`, and pin the toolset to {card.computed_digest()} to accept them"
        )

    def _pin_fault(self, card: ToolsetCard) -> str | None:
        pinned = self.pins.get(card.toolset)
        if pinned is None or card.computed_digest() == pinned:
            return None
        return f"the settings pin it to {pinned}, and it is {card.computed_digest()}"


def _named(card: ToolsetCard) -> Iterator[tuple[str, ToolCard]]:
    return ((f"{card.toolset}.{tool.name}", tool) for tool in card.tools)


def _is_changed(known: _Guarded, new: _Guarded) -> bool:
    """Whether it differs in what an approver relies on; a stricter rule is no such change."""
    (server, before), (new_server, after) = known, new
    same_rule = before.model_copy(update={"approval": after.approval})
    is_looser = stricter(before.approval, after.approval) != after.approval
    is_other = same_rule.computed_digest() != after.computed_digest()
    return is_looser or is_other or server != new_server


def schema_fault(card: ToolsetCard) -> str | None:
    """What is wrong with the schemas of a card; all of them are compiled to find that out."""
    for tool in card.tools:
        if not isinstance(compile_schema(tool.args_schema), SchemaValidator):
            return f"the schema of {tool.name} cannot be taken"
    return None
