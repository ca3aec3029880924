"""The tools that tool servers have announced: each card is looked at before any agent has it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from services.worker.core.run.accepted_tools import AcceptedTools, tools_of
from services.worker.core.schema.validator import SchemaValidator, compile_schema

NO_TOPIC = "the topic of its calls does not exist, or there is no right to see it"
NOT_READ = "its card is not read yet, and calls of its tools that need approval wait for that"


@dataclass(slots=True)
class KnownTools:
    """The last card of each toolset that was taken; `pins` are digests that they must have.

    A card that is not taken leaves the tools of the one before. Tools that need approval and that
    a card changes are `stopped` in any case, until an operator accepts the change, or a pin. A
    toolset has no tools while the topic of its calls is not there.

    `read` are the toolsets whose cards are read, `wanted` those whose cards open runs need.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # why, by toolset
    faulty_records: dict[str, str] = field(default_factory=dict)  # likewise; no card came since
    refusals: Counter[str] = field(default_factory=Counter)  # records that were not taken
    accepted: AcceptedTools = field(default_factory=AcceptedTools)
    stopped: set[str] = field(default_factory=set)  # tools that must not be called
    read: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    not_kept: str | None = None  # why what is accepted is known only as long as the worker runs
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
        self.faulty_records.pop(card.toolset, None)
        fault = self._settle(card, unusable)
        if fault and fault != NO_TOPIC:
            self.refusals[card.toolset] += 1
        return fault

    def refuse(self, toolset: str, fault: str) -> None:
        """A record in the toolset's topic that is not a card of it; what was taken stays."""
        self.faulty_records[toolset] = fault
        self.refusals[toolset] += 1

    def accept(self, record: ToolAccepted) -> None:
        """What is on the topic of accepted tools holds."""
        self.accepted.take_record(record)
        self._settle_again(record.toolset)

    def forget(self, tool: str) -> None:
        """Nothing is there of a tool any more."""
        self.accepted.forget(tool)
        self._settle_again(tool.partition(".")[0])

    @property
    def stopped_by_toolset(self) -> Mapping[str, int]:
        """How many of each toolset that is announced."""
        counts = Counter(name.partition(".")[0] for name in self.stopped)
        return {toolset: counts[toolset] for toolset in sorted(self._last)}

    def is_stopped(self, tool: ToolDefinition) -> bool:
        """Whether no new call of a tool, as a run has it, may go out now.

        It may have changed where its card is not read: open runs outlive agents in the settings.
        From then on its toolset is `wanted`.
        """
        if tool.toolset not in self.read and self.accepted.is_guarded(tool):
            self.wanted.add(tool.toolset)
            return True
        return tool.name in self.stopped

    @property
    def faults(self) -> Mapping[str, str]:
        """Why a toolset has fewer tools than announced, or which record was refused; by toolset."""
        return {**self.refused, **self.faulty_records}

    def notes(self) -> list[str]:
        """In a sentence each, what an operator should know of toolsets."""
        notes = [f"toolset {name}: {fault}" for name, fault in sorted(self.faults.items())]
        notes += [f"toolset {name}: {NOT_READ}" for name in sorted(self.wanted - self.read)]
        if self.not_kept and len(self.accepted):
            notes.append(f"tools that need approval are not kept as they are: {self.not_kept}")
        return notes

    def _settle_again(self, toolset: str) -> None:
        if last := self._last.get(toolset):
            self._settle(*last)

    def _settle(self, card: ToolsetCard, unusable: str | None) -> str | None:
        pin = self.pins.get(card.toolset)
        is_pinned = pin is not None and pin == card.computed_digest()
        changed = () if is_pinned else self.accepted.changed(card)
        self._stop(card.toolset, changed)
        if fault := self._pin_fault(card) or unusable:
            self.refused[card.toolset] = fault
            return fault
        self._taken[card.toolset] = card
        self.accepted.see(card, is_pinned=is_pinned)
        return self._offer(card)

    def _stop(self, toolset: str, changed: Collection[str]) -> None:
        self.stopped = {name for name in self.stopped if not name.startswith(f"{toolset}.")}
        self.stopped.update(changed)
        for name in changed:
            self.tools.pop(name, None)

    def end(self, toolset: str) -> None:
        """The toolset is not served any more."""
        self._last.pop(toolset, None)
        self.faulty_records.pop(toolset, None)
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
        return [card.toolset for card in changed if self._offer(card) == NO_TOPIC]

    def _offer(self, card: ToolsetCard) -> str | None:
        """Replace the tools of its toolset; gives why there are none, or fewer."""
        self._withdraw(card.toolset)
        if not self._has_topic(card.toolset):
            self.refused[card.toolset] = NO_TOPIC
            return NO_TOPIC
        offered = {tool.name: tool for tool in tools_of(card) if tool.name not in self.stopped}
        self.tools |= offered
        self.refused.pop(card.toolset, None)
        stopped = [tool.name for tool in tools_of(card) if tool.name in self.stopped]
        if not stopped:
            return None
        self.refused[card.toolset] = fault = _change_fault(card.toolset, stopped)
        return fault

    def _drop(self, toolset: str) -> None:
        self.refused.pop(toolset, None)
        self._taken.pop(toolset, None)
        self._withdraw(toolset)

    def _withdraw(self, toolset: str) -> None:
        for name in [name for name, tool in self.tools.items() if tool.toolset == toolset]:
            del self.tools[name]

    def _pin_fault(self, card: ToolsetCard) -> str | None:
        pinned = self.pins.get(card.toolset)
        if pinned is None or card.computed_digest() == pinned:
            return None
        return f"the settings pin it to {pinned}, and it is {card.computed_digest()}"


def _change_fault(toolset: str, changed: Collection[str]) -> str:
    """A server cannot change by itself what people approve, nor that they are asked."""
    return (
        f"{', '.join(changed)} need approval and have changed, and no new call of them goes out: "
        f"look at them, and accept them with `answerbus tools accept {toolset}`"
    )


def schema_fault(card: ToolsetCard) -> str | None:
    """The faults of a card's schemas, found by compiling all of them."""
    for tool in card.tools:
        if not isinstance(compile_schema(tool.args_schema), SchemaValidator):
            return f"the schema of {tool.name} cannot be taken"
    return None
