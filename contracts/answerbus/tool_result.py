"""Reports of a tool server on a call: progress, and one result."""

import math
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.continued_call import ToolQuestion
from answerbus.failure import Problems
from answerbus.tool_call import CallId, Token, ToolState
from answerbus.wire import OMIT_NONE, Count, Name, Note, Notes, Reason, Wire, WorkflowId

# What servers of ours and the conformance test call failures; a tool may have more of its own.
UNKNOWN_TOOL = "unknown_tool"
INVALID_ARGS = "invalid_args"
NOT_APPROVED = "not_approved"
TIMED_OUT = "timed_out"
TOO_LARGE = "too_large"
NOT_JSON = "not_json"
CRASHED = "crashed"
INPUT_REQUIRED = "input_required"  # a question that no person can be asked


class ToolOk(Wire):
    """The tool has done its work; `value` is shown to the model as data."""

    kind: Literal["ok"] = "ok"
    value: JsonValue


class ToolFailure(Wire):
    """The tool did not do its work: a stable code for programs, a message for the model."""

    kind: Literal["error"] = "error"
    code: Name
    message: Reason = ""
    retryable: bool = False
    problems: Problems = ()


ToolOutcome = Annotated[ToolOk | ToolFailure, Field(discriminator="kind")]


CallCost = Annotated[int | None, Field(ge=0, le=limits.TOOL_COST_MICRO_USD_MAX), OMIT_NONE]


def counted_cost(named: object) -> int | None:
    """A cost rounded up, and at most the highest; None for what cannot be one, and for none."""
    if isinstance(named, bool) or not isinstance(named, int | float) or not named >= 0:
        return None
    return math.ceil(min(named, limits.TOOL_COST_MICRO_USD_MAX))


class ToolResult(Wire):
    """The result of a call, written where the call says, with its token.

    Any tool server may write it: call, workflow, token and outcome must be there. `micro_usd` is
    what the call has cost elsewhere; the account of the run is charged for it.
    """

    kind: Literal["tool_result"] = "tool_result"
    call_id: CallId
    workflow_id: WorkflowId
    token: Token
    outcome: ToolOutcome
    duration_ms: Count | None = None
    server: Note = ""
    notes: Notes = ()
    micro_usd: CallCost = None


class ToolProgress(Wire):
    """The call is still worked on: its time-out starts again. `n` counts the progress of a call.

    With `state` a server goes on with the call after a crash, by `tool_continue`. With `asks` it
    waits for a person, and its server does nothing more before it is sent the answer.
    """

    kind: Literal["tool_progress"] = "tool_progress"
    call_id: CallId
    workflow_id: WorkflowId
    token: Token
    note: Note = ""
    n: Count = 0
    state: Annotated[ToolState | None, OMIT_NONE] = None
    asks: Annotated[ToolQuestion | None, OMIT_NONE] = None
