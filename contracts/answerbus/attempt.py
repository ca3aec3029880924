"""One spend and its outcome: the audit record, chained by hash per account."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus import limits
from answerbus.budget import Spent, Usage
from answerbus.failure import Failure
from answerbus.outcome import ModelUsed
from answerbus.wire import (
    OMIT_FALSY,
    Count,
    Digest,
    Labels,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
    at_most_bytes,
)

AttemptOutcome = Literal[
    "result", "unvalidated_result", "refusal", "retry", "dead_letter", "unknown", "released", "step"
]


class Attempt(Wire):
    """One committed spend; `hash` covers all other fields, `previous` links the account's chain.

    `usage` is what its provider reported, `charged` what its account was charged: the worst case
    of what was not reported, nothing where the attempt is not counted. `tools_micro_usd` is what
    the account was charged for tools since the attempt before. `labels` are those of its request;
    an attempt that was written off after a crash has none.
    """

    kind: Literal["attempt"] = "attempt"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    account_id: str
    attempt: Annotated[int, Field(ge=1)]
    counted: bool
    outcome: AttemptOutcome
    failure: Failure | None = None
    model: ModelUsed | None = None
    schema_digest: Digest | None = None
    wire_schema_digest: Digest | None = None
    prompt_digest: Digest | None = None
    answer_digest: Digest | None = None
    provider_request_id: str | None = None
    stop_reason: str | None = None
    usage: Usage = Usage()
    charged: Annotated[Spent | None, OMIT_FALSY] = None
    tools_micro_usd: Annotated[Count, OMIT_FALSY] = 0
    labels: Annotated[Labels, OMIT_FALSY] = {}
    rationale: Annotated[str, at_most_bytes(limits.RATIONALE_BYTES_MAX)] | None = None
    started_at: Timestamp
    duration_ms: Count | None = None
    worker: str
    previous: Digest | None
    hash: Digest
