"""What the worker decided: Result, UnvalidatedResult, Refusal and RetryRequest."""

from typing import Annotated, Any, Generic, Literal

from pydantic import Field, JsonValue
from typing_extensions import TypeVar

from answerbus import limits
from answerbus.budget import AccountState, Usage
from answerbus.failure import Failure, Problems
from answerbus.request import Prior, Replay, Request, SchemaId
from answerbus.wire import (
    Count,
    Digest,
    Labels,
    Notes,
    Position,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
)

AnswerT = TypeVar("AnswerT", default=JsonValue)


class ModelUsed(Wire):
    """Who answered; `model` is what the provider itself named, `dialect` what it was asked in."""

    profile: str
    provider: str
    model: str
    dialect: str


class Origin(Wire):
    """Where the record stood that upstream wrote; `timestamp` is the broker's append time."""

    topic: str
    partition: Position
    offset: Position
    timestamp: Timestamp


class _Answered(Wire):
    """What a published answer says of itself, whichever way it ended."""

    kind: str
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    answered_schema: SchemaId = Field(alias="schema")
    attempt: Annotated[int, Field(ge=1)]
    model: ModelUsed
    usage: Usage
    account: AccountState
    notes: Notes = ()
    requested_at: Timestamp
    finished_at: Timestamp
    labels: Labels = {}
    replay: Replay | None = None


class Result(_Answered, Generic[AnswerT]):
    """A valid answer, without its audit-only fields."""

    kind: Literal["result"] = "result"
    answer: AnswerT


class UnvalidatedResult(_Answered):
    """An answer that never became valid, published on request (`at_last: unvalidated`)."""

    kind: Literal["unvalidated_result"] = "unvalidated_result"
    unvalidated_answer: JsonValue
    problems: Problems


class Refusal(_Answered):
    """The model chose a refusing variant of its contract, or the provider declined."""

    kind: Literal["refusal"] = "refusal"
    by: Literal["model", "provider"]
    reason: Reason
    category: str | None = None
    answer: JsonValue = None


class RetryRequest(Wire):
    """A request that is still being tried; the retries topic is the list of them."""

    kind: Literal["retry_request"] = "retry_request"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    request: Request
    body_digest: Digest
    origin: Origin
    next_attempt: Annotated[int, Field(ge=1)]
    not_before: Timestamp
    deadline: Timestamp
    counted: bool
    waits: Count = 0
    failure: Failure
    prior: Annotated[tuple[Prior, ...], Field(max_length=limits.PRIOR_ENTRIES_MAX)] = ()
    account: AccountState
    notes: Notes = ()
    at: Timestamp


AnyResult = Result[Any]
