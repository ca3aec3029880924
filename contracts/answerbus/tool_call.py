"""Orders to a tool server: a call of a tool, and its cancellation."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.wire import (
    OMIT_NONE,
    Digest,
    Labels,
    Name,
    Position,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
    at_most_bytes,
)

CallId = Annotated[
    str, Field(min_length=1, max_length=limits.CALL_ID_CHARS_MAX, pattern=r"^[A-Za-z0-9._:\-]+$")
]
ToolsetName = Annotated[
    str, Field(max_length=limits.TOOLSET_NAME_CHARS_MAX, pattern=r"^[a-z0-9][a-z0-9_\-]*$")
]
ToolName = Annotated[
    str, Field(max_length=limits.TOOL_NAME_CHARS_MAX, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._\-]*$")
]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{22}==$")]
KafkaTopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._\-]+$")]
ToolState = Annotated[str, at_most_bytes(limits.TOOL_STATE_BYTES_MAX)]
"""The state from which a toolset's servers go on with a call; only they read it."""


class CallingAgent(Wire):
    """The agent whose run makes the call, in the version that the run has."""

    name: Name
    version: Annotated[int, Field(ge=1)]
    digest: Digest


class ReplyPlace(Wire):
    """Where the result is to be written, and with which key; the token shows who read the call."""

    topic: KafkaTopicName
    partition: Position
    key: WorkflowId
    token: Token


class ParentRef(Wire):
    """What a request of the tool's own names as its parent: the run, and the call in it."""

    request_id: RequestId
    call_id: CallId


class CallApproval(Wire):
    """The approval of exactly this call, with exactly these arguments."""

    by: Reason
    reason: Reason = ""
    at: Timestamp


class ToolCallRecord(Wire):
    """One call of a tool. `call_id` never changes; `delivery` counts how often it was sent."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: CallId
    delivery: Annotated[int, Field(ge=1, le=limits.TOOL_DELIVERIES_MAX)] = 1
    request_id: RequestId
    workflow_id: WorkflowId
    agent: CallingAgent | None = None
    attempt: Annotated[int, Field(ge=1)] = 1
    toolset: ToolsetName
    tool: ToolName
    args: dict[str, JsonValue]
    args_digest: Digest
    approved: CallApproval | None = None
    expires_at: Timestamp
    reply: ReplyPlace
    parent: ParentRef
    labels: Labels = {}
    at: Timestamp


class ToolCancel(Wire):
    """The call is not wanted any more; it is in the partition of its call.

    With `state` a server of the `tool` has kept that for it, to go on with the call.
    """

    kind: Literal["tool_cancel"] = "tool_cancel"
    call_id: CallId
    request_id: RequestId
    workflow_id: WorkflowId
    toolset: ToolsetName
    tool: Annotated[ToolName | None, OMIT_NONE] = None
    state: Annotated[ToolState | None, OMIT_NONE] = None
    reason: Reason = ""
    at: Timestamp
