"""Controls of open requests by people, requests for approval, and the effects of controls."""

from typing import Annotated, Any, Literal

from pydantic import Field

from answerbus import limits
from answerbus.tool_call import CallId
from answerbus.wire import Digest, Reason, RequestId, Timestamp, Wire, WorkflowId


def _is_first(value: object) -> bool:
    """Then records are as they were before there was such a member."""
    return value == 1


ApprovedDelivery = Annotated[int, Field(ge=1, le=limits.TOOL_DELIVERIES_MAX, exclude_if=_is_first)]


class ApprovalRequested(Wire):
    """A tool call that runs only if a person approves it, with these very arguments.

    `delivery` is what is asked for: beyond the first, the call was delivered before, and nobody
    knows whether it had its effect.
    """

    kind: Literal["approval_requested"] = "approval_requested"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    call_id: CallId
    tool: str
    args: dict[str, Any]
    args_digest: Digest
    delivery: ApprovedDelivery = 1
    expires_at: Timestamp
    at: Timestamp


UNPROVED = "unproved:"  # begins a `by` that nobody has proved


def _is_none(value: object) -> bool:
    return value is None


class Approval(Wire):
    """A person approves or denies one delivery of a tool call, once, for arguments of that digest.

    `by` is who was authenticated by the console or by Kafka, as far as the writer knows it; else it
    begins with `unproved:`. `said_by` is the name that the caller gave.
    """

    kind: Literal["approval"] = "approval"
    call_id: CallId
    args_digest: Digest
    delivery: ApprovedDelivery = 1
    decision: Literal["approved", "denied"]
    by: Reason
    said_by: Annotated[Reason | None, Field(exclude_if=_is_none)] = None
    reason: Reason
    workflow_id: WorkflowId
    at: Timestamp


class Cancel(Wire):
    """A person ends an open request, or all that are open of its workflow."""

    kind: Literal["cancel"] = "cancel"
    scope: Literal["request", "workflow"]
    request_id: RequestId | None = None
    workflow_id: WorkflowId
    by: Reason
    reason: Reason
    at: Timestamp


def _is_false(value: object) -> bool:
    return value is False


_IF_SO = Field(exclude_if=_is_false)

Control = Annotated[Approval | Cancel, Field(discriminator="kind")]

ControlEffect = Literal["approved", "denied", "cancelled", "remembered", "nothing"]


class ControlApplied(Wire):
    """The effect of a control, once: `requests` are those that it changed.

    `remembered`: the request was not read yet. `nothing`: it is closed, was decided before, or the
    control was on a topic that others than those who may decide can write: `is_misplaced`.
    """

    kind: Literal["control_applied"] = "control_applied"
    event_id: str
    workflow_id: WorkflowId
    control: Control
    effect: ControlEffect
    requests: Annotated[tuple[RequestId, ...], Field(max_length=limits.CANCELLED_AT_ONCE_MAX)]
    is_misplaced: Annotated[bool, _IF_SO] = False
    at: Timestamp
