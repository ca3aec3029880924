"""The part of a dead run that a new request takes over: steps, and outcomes of their tool calls."""

from typing import Annotated

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.call_outcome import CallOutcome
from answerbus.tool_call import CallId
from answerbus.wire import Digest, RequestId, Wire


class ResumedCall(Wire):
    """A tool call that has ended; it is not made again."""

    call_id: CallId
    tool: str
    args: dict[str, JsonValue]
    args_digest: Digest
    outcome: CallOutcome


class ResumedStep(Wire):
    """A step that was taken; the model is not asked for it again."""

    attempt: Annotated[int, Field(ge=1)]
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
    number: Annotated[int, Field(ge=1)]
