"""Runs in other events: the agent of a request, the result of its run, and its parent."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus import limits
from answerbus.budget import Usage
from answerbus.tool_call import ParentRef
from answerbus.wire import IN_64_BITS, OMIT_NONE, Count, Digest, Name, RequestPart, Wire

_QUALIFIED_CHARS_MAX = limits.TOOLSET_NAME_CHARS_MAX + 1 + limits.TOOL_NAME_CHARS_MAX

QualifiedTool = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_\-]*\.[A-Za-z0-9_][A-Za-z0-9._\-]*$",
        max_length=_QUALIFIED_CHARS_MAX,
    ),
]
"""A tool with its toolset before it, such as `orders.get_order`."""

Malformed = Literal["retry", "text"]
"""How an answer that is not JSON is treated: it is asked for again, or it is the final text."""

Version = Annotated[int, Field(ge=1), IN_64_BITS]


class AgentRef(RequestPart):
    """The agent that shall work on a request.

    Without a `version` it is the newest that the workers know. `tools` can only leave some of the
    agent's tools out. Without `malformed` it is the agent's.
    """

    name: Name
    version: Version | None = None
    tools: Annotated[tuple[QualifiedTool, ...], Field(max_length=limits.AGENT_TOOLS_MAX)] | None = (
        None
    )
    malformed: Annotated[Malformed | None, OMIT_NONE] = None


class AgentId(Wire):
    """A definition of an agent as events name it; `digest` is that of the frozen definition."""

    name: Name
    version: Version
    digest: Digest


class RunSummary(Wire):
    """The outcome of a run; `usage` is of its steps, its last attempt, and its children."""

    agent: AgentId
    steps: Count
    tool_calls: Count
    children: Count = 0
    usage: Usage = Usage()


class ParentId(ParentRef):
    """The run, and the tool call of it, that asks for a request; `depth` counts from the root."""

    depth: Annotated[int, Field(ge=1), IN_64_BITS] = 1


class Parent(ParentId):
    """The same, as a request says it, and what it may spend of the account of the root.

    It leaves `floor` attempts to its ancestors, and uses at most `cap` with all that it asks.
    """

    floor: Annotated[Count, IN_64_BITS] = 0
    cap: Annotated[Count, IN_64_BITS] | None = None
