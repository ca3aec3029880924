"""The history of a run: its steps, and the end of each tool call; chained by hash per run."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny

from answerbus import limits
from answerbus.agent import AgentId
from answerbus.budget import AccountState, Usage
from answerbus.call_outcome import CallOutcome
from answerbus.edited_args import EditedArgs
from answerbus.policy import PolicyVerdict
from answerbus.tool_call import CallId
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Count,
    Digest,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
)

Number = Annotated[int, Field(ge=1)]
CallState = Literal["called", "waiting", "awaits_approval", "awaits_input", "ended"]
Composed = Literal["propose", "select"]


class StepCall(Wire):
    """A tool call of a step; `state` is how it stood when the step was written.

    `policy` is there where the agent has one for the tool.
    """

    call_id: CallId
    tool: str
    args: dict[str, Any]
    args_digest: Digest
    state: CallState
    policy: Annotated[PolicyVerdict | None, OMIT_NONE] = None


class Step(Wire):
    """An accepted answer of a run that is not its end; `n` counts steps, `attempt` the spends.

    `hash` covers all other fields, `previous` is the hash of what the run wrote before. The ends of
    calls are in the same chain. `composed` is there where no model decides what comes next: the
    step that asks for proposals has no attempt, and that of the selection is the run's last. It
    says which call was `chosen`.
    """

    kind: Literal["step"] = "step"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    agent: AgentId
    n: Number
    attempt: Number
    said: tuple[str, ...] = ()
    calls: Annotated[tuple[StepCall, ...], Field(max_length=limits.STEP_ACTIONS_MAX)]
    usage: Usage
    account: AccountState
    composed: Annotated[Composed | None, OMIT_NONE] = None
    chosen: Annotated[CallId | None, OMIT_NONE] = None
    at: Timestamp
    previous: Digest | None
    hash: Digest


class ToolEnded(Wire):
    """The one end of a tool call; `micro_usd` is what the account was charged for it.

    `reconciled`: its result had been lost, and its server found out afterwards that it had run.
    `edited` are the arguments that it was made with, where a person changed those of its step.
    """

    kind: Literal["tool_ended"] = "tool_ended"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    call_id: CallId
    tool: str
    outcome: SerializeAsAny[CallOutcome]
    took_ms: Count | None
    micro_usd: Annotated[Count | None, OMIT_NONE] = None
    reconciled: Annotated[bool, OMIT_FALSY] = False
    edited: Annotated[EditedArgs | None, OMIT_NONE] = None
    at: Timestamp
    previous: Digest | None
    hash: Digest
