"""The card of a tool server: its tools, each with its schema and digest."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.contract import digest_of
from answerbus.tool_call import ToolName, ToolsetName
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Digest,
    Note,
    Reason,
    Timestamp,
    Wire,
    at_most_bytes,
)

Delivery = Literal["at_least_once", "at_most_once"]
ApprovalRule = Literal["never", "always", "after_untrusted"]
_BY_STRICTNESS: tuple[ApprovalRule, ...] = ("never", "after_untrusted", "always")
WrittenBy = Literal["code", "mcp"]
TimeoutS = Annotated[float, Field(gt=0, le=limits.TOOL_TIMEOUT_S_MAX, allow_inf_nan=False)]


def stricter(one: ApprovalRule, other: ApprovalRule) -> ApprovalRule:
    """The rule under which more calls need approval."""
    return max(one, other, key=_BY_STRICTNESS.index)


class ToolCard(Wire):
    """One tool: what it is for, which arguments it takes, and how it may be called.

    `repeatable`: an equal call in the next step is made again. Else the result of the one that
    succeeded is its result, too. `reconcilable`: its server can be asked whether a call that was
    delivered, and has no result, had its effect.
    """

    name: ToolName
    description: Annotated[str, at_most_bytes(limits.TOOL_DESCRIPTION_BYTES_MAX)] = ""
    args_schema: dict[str, JsonValue]
    delivery: Delivery = "at_least_once"
    approval: ApprovalRule = "never"
    timeout_s: TimeoutS = limits.TOOL_TIMEOUT_S_DEFAULT
    repeatable: Annotated[bool, OMIT_FALSY] = False
    reconcilable: Annotated[bool, OMIT_FALSY] = False
    digest: Digest | None = None

    def computed_digest(self) -> str:
        """The digest of all that the card says of the tool; what a card claims is not believed."""
        fields = self.model_dump(mode="json", exclude={"digest", "args_schema"})
        fields |= {"args_schema": self.args_schema, "timeout_s": f"{self.timeout_s:g}"}
        return digest_of(fields)


class ToolsetCard(Wire):
    """The tools that one service serves. `written_by`: its own code, or a foreign MCP server.

    Any tool server may write it: names and schemas must be there.
    """

    kind: Literal["toolset"] = "toolset"
    toolset: ToolsetName
    tools: Annotated[tuple[ToolCard, ...], Field(max_length=limits.TOOLSET_TOOLS_MAX)]
    written_by: WrittenBy = "code"
    server: Note = ""
    digest: Digest | None = None
    at: Timestamp | None = None

    def computed_digest(self) -> str:
        """The digest by which a card is pinned: that of its tools, in the order of their names."""
        tools = sorted((tool.name, tool.computed_digest()) for tool in self.tools)
        return digest_of([self.toolset, self.written_by, [list(tool) for tool in tools]])


class ToolAccepted(Wire):
    """A tool that needs approval, as workers may have it called; the last record of a tool holds.

    A worker writes what it sees first, and stricter rules. An operator accepts all other changes;
    `by` and `said_by` name them as in an `Approval`. Only those two may write it.
    """

    kind: Literal["tool_accepted"] = "tool_accepted"
    toolset: ToolsetName
    card: ToolCard
    written_by: WrittenBy = "code"
    by: Annotated[Reason | None, OMIT_NONE] = None
    said_by: Annotated[Reason | None, OMIT_NONE] = None
    at: Timestamp

    @property
    def name(self) -> str:
        """As agents and models call it."""
        return f"{self.toolset}.{self.card.name}"
