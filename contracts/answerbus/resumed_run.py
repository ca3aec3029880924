"""The part of a dead run that a new request takes over: steps, and outcomes of their tool calls.

Any publisher can write such a part into a request. Workers believe it only beside a RunResumed, on
a topic that operators alone may write.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.call_outcome import CallOutcome
from answerbus.edited_args import EditedArgs
from answerbus.tool_call import CallId
from answerbus.wire import (
    IN_64_BITS,
    OMIT_NONE,
    Digest,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
)


class ResumedCall(Wire):
    """A tool call that has ended; it is not made again. `edited` as in the end of a call."""

    call_id: CallId
    tool: str
    args: dict[str, JsonValue]
    args_digest: Digest
    outcome: CallOutcome
    edited: Annotated[EditedArgs | None, OMIT_NONE] = None


class ResumedStep(Wire):
    """A step that was taken; the model is not asked for it again."""

    attempt: Annotated[int, Field(ge=1), IN_64_BITS]
    said: tuple[str, ...] = ()
    calls: Annotated[tuple[ResumedCall, ...], Field(max_length=limits.STEP_ACTIONS_MAX)]


class ResumedRun(Wire):
    """The steps that a run goes on from; written by the replay tool alone.

    `request_id` names the run that wrote the last of them, `previous` the last record of its chain,
    which has `number` records.
    """

    request_id: RequestId
    steps: Annotated[tuple[ResumedStep, ...], Field(min_length=1, max_length=limits.STEPS_MAX)]
    previous: Digest
    number: Annotated[int, Field(ge=1), IN_64_BITS]


class RunResumed(Wire):
    """An operator has sent these steps: the request may go on from them.

    In the transaction of the request; `steps_digest` is that of its `resumed` as canonical JSON.
    """

    kind: Literal["run_resumed"] = "run_resumed"
    request_id: RequestId
    workflow_id: WorkflowId
    steps_digest: Digest
    by: Reason
    at: Timestamp
