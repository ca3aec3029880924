"""The private records of a lane: accounts, closed requests, and the lane itself."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from answerbus.budget import Budget, Spent
from answerbus.wire import Count, Digest, Reason, RequestId, Timestamp, Wire, WorkflowId

LEDGER_VERSION = 1
OFFSET_MAX = 2**63 - 1  # as Kafka counts

Offset = Annotated[int, Field(ge=0, le=OFFSET_MAX)]

LANE_KEY = "lane"

Partitions = Annotated[int, Field(ge=1)]
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
    offset: Offset
    at: Timestamp

    @property
    def is_place(self) -> bool:
        """Whether the record itself is closed, and no request id."""
        return self.workflow_id is None


class Suspect(Wire):
    """A request that was under way when its worker ended, and how often that was so in a row."""

    request_id: RequestId
    crashes: Count = 0  # while its call was in flight
    alone: Count = 0  # of them, while nothing else was in flight in its worker
    prepared: Count = 0  # while it was made ready for its call, or an error ended that


class SuspectRecord(Wire):
    """A record that was being taken in when its worker ended, and how often."""

    offset: Count
    crashes: Count


class Watched(Wire):
    """What a worker does by itself just now, so that its end tells what it was at."""

    what: Literal["record", "preparation", "call"]
    request_id: RequestId | None = None
    offset: Count | None = None


class LaneRecord(Wire):
    """The lane of one partition: who opened it, and how often without getting anything done.

    `partitions` is the number that the deployment uses, whatever the topics have; `earlier` are
    those that it used before, latest first. `moving_to`: a move to that number is not finished.
    `group` is the consumer group of that worker: those of one group share the partitions.
    `suspects`, `suspect_record` and `watched` say what may be why workers ended.
    """

    kind: Literal["lane"] = "lane"
    v: Literal[1] = 1
    partitions: Partitions
    openings_without_progress: Count
    worker: str
    at: Timestamp
    group: str | None = None
    earlier: tuple[Partitions, ...] = ()
    moving_to: Partitions | None = None
    suspects: tuple[Suspect, ...] = ()
    suspect_record: SuspectRecord | None = None
    watched: Watched | None = None


class Skipped(Wire):
    """An operator has passed by a record that no worker can read.

    It stands in the partition of that record, in the ledger or among the retries, and is kept as
    long. `digest` is of the record's value, so that no other record at this offset is meant; where
    Kafka's clients cannot tell what the value is, it is that of no bytes.
    """

    kind: Literal["skipped"] = "skipped"
    v: Literal[1] = 1
    offset: Offset
    digest: Digest
    problem: Reason
    by: Reason
    reason: Reason
    at: Timestamp


LedgerRecord = Annotated[
    AccountRecord | ClosedRecord | LaneRecord | Skipped, Field(discriminator="kind")
]
LEDGER_RECORD: TypeAdapter[LedgerRecord] = TypeAdapter(LedgerRecord)
