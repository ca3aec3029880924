"""The private records of a lane: accounts, closed requests, and the lane itself."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from answerbus.budget import Budget, Spent
from answerbus.wire import Count, Digest, RequestId, Timestamp, Wire, WorkflowId

LEDGER_VERSION = 1

ClosedOutcome = Literal["result", "unvalidated_result", "refusal", "dead_letter", "forwarded"]


class InFlight(Wire):
    """A committed spend whose call has not been settled; tokens and money at their worst case."""

    request_id: RequestId
    attempt: Annotated[int, Field(ge=1)]
    tokens: Count
    micro_usd: Count
    at: Timestamp


class OpenRequest(Wire):
    """How many attempts a request without a terminal has used, so that numbers never repeat."""

    request_id: RequestId
    attempts: Count


class AccountRecord(Wire):
    """One account; the check is `spent + in_flight + this <= limit`."""

    kind: Literal["account"] = "account"
    v: Literal[1] = 1
    account_id: str
    workflow_id: WorkflowId
    limit: Budget
    spent: Spent
    in_flight: tuple[InFlight, ...] = ()
    open: tuple[OpenRequest, ...] = ()
    last_attempt_hash: Digest | None = None
    updated_at: Timestamp


class ClosedRecord(Wire):
    """A request id, or the place of a record that was no request, that has had its one event.

    A place has no `workflow_id`, which tells the two apart: a request may be called like a place.
    """

    kind: Literal["closed"] = "closed"
    v: Literal[1] = 1
    closes: str
    workflow_id: str | None
    body_digest: Digest
    outcome: ClosedOutcome
    offset: Count
    at: Timestamp

    @property
    def is_place(self) -> bool:
        """Whether the record itself is closed, and no request id."""
        return self.workflow_id is None


class LaneRecord(Wire):
    """The lane of one partition: who opened it, and how often without getting anything done."""

    kind: Literal["lane"] = "lane"
    v: Literal[1] = 1
    partitions: Annotated[int, Field(ge=1)]
    openings_without_progress: Count
    worker: str
    at: Timestamp


LedgerRecord = Annotated[AccountRecord | ClosedRecord | LaneRecord, Field(discriminator="kind")]
LEDGER_RECORD: TypeAdapter[LedgerRecord] = TypeAdapter(LedgerRecord)
