"""Tools that need approval, each as it was first seen or as an operator accepted it; pure."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolAccepted, ToolsetCard, stricter


def tools_of(card: ToolsetCard) -> Iterator[ToolDefinition]:
    """Each tool of a card, as agents are given it."""
    for tool in card.tools:
        yield ToolDefinition(toolset=card.toolset, card=tool, written_by=card.written_by)


def accepted_tool(record: ToolAccepted) -> ToolDefinition:
    """The tool that a record is about."""
    return ToolDefinition(toolset=record.toolset, card=record.card, written_by=record.written_by)


def is_changed(before: ToolDefinition, after: ToolDefinition) -> bool:
    """Whether it differs in what an approver relies on; a stricter rule is not such a change."""
    is_looser = stricter(before.card.approval, after.card.approval) != after.card.approval
    as_before = after.card.model_copy(update={"approval": before.card.approval})
    is_other = as_before.computed_digest() != before.card.computed_digest()
    return is_looser or is_other or after.written_by != before.written_by


@dataclass(frozen=True, slots=True)
class _Judged:
    """Two definitions of a tool, and whether the second is a change; none is ever altered."""

    before: ToolDefinition
    after: ToolDefinition
    is_changed: bool

    def is_of(self, before: ToolDefinition, after: ToolDefinition) -> bool:
        """By the very objects: to Python 1 equals true."""
        is_same_card = self.after.card is after.card and self.after.written_by == after.written_by
        return self.before is before and is_same_card


@dataclass(slots=True)
class AcceptedTools:
    """Which changes of tools are accepted; `guarded` are those for which agents ask for approval.

    The topic of accepted tools decides, over what was seen here.
    """

    guarded: Callable[[], Collection[str]] = tuple
    _known: dict[str, ToolDefinition] = field(default_factory=dict)
    _unwritten: set[str] = field(default_factory=set)
    _judged: dict[str, _Judged] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def unwritten(self) -> Collection[ToolDefinition]:
        """What was seen first or became stricter, and is not on the topic yet."""
        return [self._known[name] for name in sorted(self._unwritten)]

    def is_guarded(self, tool: ToolDefinition) -> bool:
        """Whether a change of a tool, as a run has it, must be accepted."""
        needs_approval = tool.card.approval != "never" or tool.policy is not None
        return needs_approval or tool.name in self._known

    def changed(self, card: ToolsetCard) -> tuple[str, ...]:
        """The tools that a card changes in a way that was not accepted."""
        known = ((self._known.get(tool.name), tool) for tool in tools_of(card))
        return tuple(
            after.name for before, after in known if before and self._is_changed(before, after)
        )

    def _is_changed(self, before: ToolDefinition, after: ToolDefinition) -> bool:
        """To accept a tool says nothing new of the others in its card, which may be hundreds."""
        judged = self._judged.get(after.name)
        if judged is None or not judged.is_of(before, after):
            judged = self._judged[after.name] = _Judged(before, after, is_changed(before, after))
        return judged.is_changed

    def see(self, card: ToolsetCard, *, is_pinned: bool) -> None:
        """A card is taken. A pin holds as long as it stands, and changes nothing that is kept."""
        for tool in tools_of(card):
            before = self._known.get(tool.name)
            needs_approval = tool.card.approval != "never" or tool.name in self.guarded()
            if before and (is_pinned or before == tool or is_changed(before, tool)):
                continue
            if not (before or needs_approval):
                continue
            self._known[tool.name] = tool
            self._unwritten.add(tool.name)

    def take_record(self, record: ToolAccepted) -> None:
        """The record is on the topic."""
        self._unwritten.discard(record.name)
        self._known[record.name] = accepted_tool(record)

    def forget(self, name: str) -> None:
        """Nothing is on the topic any more: the next card of the tool is its first."""
        self._unwritten.discard(name)
        self._judged.pop(name, None)
        self._known.pop(name, None)
