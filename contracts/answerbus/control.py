"""Controls of open requests by people, requests for approval, and the effects of controls."""

from typing import Annotated, Any, Literal

from pydantic import Field

from answerbus import limits
from answerbus.continued_call import Addressee, InputNumber, InputValue
from answerbus.edited_args import PersonsArgs
from answerbus.failure import Problems
from answerbus.tool_call import CallId
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Digest,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
)


def _is_first(value: object) -> bool:
    """Then records are as they were before there was such a member."""
    return value == 1


ApprovedDelivery = Annotated[int, Field(ge=1, le=limits.TOOL_DELIVERIES_MAX, exclude_if=_is_first)]
AfterInput = Annotated[int, Field(ge=0, le=limits.CALL_INPUTS_MAX), OMIT_FALSY]


class ApprovalRequested(Wire):
    """A tool call that runs only if a person approves it, with these very arguments.

    `delivery` is the delivery to approve. Beyond the first, the call was delivered before, and
    it is unknown whether it had its effect. Deliveries count from 1 again once a person has
    answered a question of the tool: `after_input` is the number of that question.
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
    after_input: AfterInput = 0
    expires_at: Timestamp
    at: Timestamp


UNPROVED = "unproved:"  # begins a `by` without a proof


class Approval(Wire):
    """A person approves or denies one delivery of a tool call, once, for arguments of that digest.

    A person who approves may change them: `args` are to run, `args_digest` is theirs, and
    `asked_digest` that of those in whose place they are.

    `by` is who was authenticated by the console or by Kafka, as far as the writer knows it; else it
    begins with `unproved:`. `said_by` is the name that the caller gave.
    """

    kind: Literal["approval"] = "approval"
    call_id: CallId
    args_digest: Digest
    args: Annotated[PersonsArgs | None, OMIT_NONE] = None
    asked_digest: Annotated[Digest | None, OMIT_NONE] = None
    delivery: ApprovedDelivery = 1
    after_input: AfterInput = 0
    decision: Literal["approved", "denied"]
    by: Reason
    said_by: Annotated[Reason | None, OMIT_NONE] = None
    reason: Reason
    workflow_id: WorkflowId
    at: Timestamp


QuestionNumber = Annotated[InputNumber, Field(exclude_if=_is_first)]


class InputRequested(Wire):
    """A question of a run to a person, whose answer must fit `json_schema`.

    `to` names the person to ask, in the words of its model; any person who may decide can answer.
    Where there is a `tool`, its server asks and not the model; `number` counts its questions in a
    call.
    """

    kind: Literal["input_requested"] = "input_requested"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    call_id: CallId
    question: Reason
    json_schema: dict[str, Any]
    to: Annotated[Addressee | None, OMIT_NONE] = None
    tool: Annotated[str | None, OMIT_NONE] = None
    number: QuestionNumber = 1
    expires_at: Timestamp
    at: Timestamp


class Input(Wire):
    """A person answers a question of a run; the first answer that fits its schema counts.

    `number` is that of the question. To a question of a tool, null declines to answer. `by` and
    `said_by` as in an `Approval`.
    """

    kind: Literal["input"] = "input"
    call_id: CallId
    value: InputValue
    number: QuestionNumber = 1
    by: Reason
    said_by: Annotated[Reason | None, OMIT_NONE] = None
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


Control = Annotated[Approval | Input | Cancel, Field(discriminator="kind")]

ControlEffect = Literal[
    "approved", "denied", "answered", "invalid", "cancelled", "remembered", "nothing"
]


class ControlApplied(Wire):
    """The effect of a control, once: `requests` are those that it changed.

    `remembered`: the request was not read yet. `nothing`: it is closed, was decided before, or the
    control was on a topic that others than those who may decide can write: `is_misplaced`.
    `invalid`: an answer, or arguments that a person changed, have `problems`, and the call waits
    for others.
    """

    kind: Literal["control_applied"] = "control_applied"
    event_id: str
    workflow_id: WorkflowId
    control: Control
    effect: ControlEffect
    requests: Annotated[tuple[RequestId, ...], Field(max_length=limits.CANCELLED_AT_ONCE_MAX)]
    is_misplaced: Annotated[bool, OMIT_FALSY] = False
    problems: Annotated[Problems, OMIT_FALSY] = ()
    at: Timestamp
