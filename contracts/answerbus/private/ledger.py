"""The private records of a lane: accounts, closed requests, and the lane itself."""

import base64
import sys
from array import array
from itertools import islice
from operator import le
from typing import Annotated, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    model_validator,
)
from pydantic_core import core_schema

from answerbus.broker_time import LATEST_MS
from answerbus.budget import Budget, Spent
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.request_key import SEPARATOR, RequestKey
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Count,
    Digest,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
)

LEDGER_VERSION = 1
LANE_VERSION: Literal[2] = 2  # since the keys of retries, runs and closed ids have the workflow
CLOSED_KEY = "closed:"
SKIPPED_KEY = "skipped:"
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
    """How many attempts a request without an outcome has used, so that numbers never repeat.

    `uncounted` of them cost nothing: the provider did no work, or was not asked. `keeps_floor`: it
    is a run, and others have to leave it what one step more may cost.
    """

    request_id: RequestId
    attempts: Count
    uncounted: Annotated[Count, OMIT_FALSY] = 0
    keeps_floor: Annotated[bool, OMIT_FALSY] = False


class AddedTo(Wire):
    """The place of the last request that added its own attempts to the limit of an account."""

    offset: Offset
    at_ms: Annotated[int, Field(ge=0, le=LATEST_MS)]


class AccountRecord(Wire):
    """One account; the check is `spent + in_flight + this <= limit`.

    `settled_by` is the request that named its limit. Where none did, each new request adds its own
    attempts, and `added_to` says which was the last. An account of a version before has neither,
    and its limit stays. `tools_micro_usd` is the part of `spent` that tools cost since the last
    attempt: the next one says it.
    """

    kind: Literal["account"] = "account"
    v: Literal[1] = 1
    account_id: str
    workflow_id: WorkflowId
    limit: Budget
    settled_by: Annotated[str, OMIT_FALSY] = ""
    added_to: Annotated[AddedTo | None, OMIT_NONE] = None
    spent: Spent
    tools_micro_usd: Annotated[Count, OMIT_FALSY] = 0
    in_flight: tuple[InFlight, ...] = ()
    open: tuple[OpenRequest, ...] = ()
    last_attempt_hash: Digest | None = None
    updated_at: Timestamp


class ClosedRecord(Wire):
    """A request id, or the place of a record that was no request, that has had its one event.

    A place has no `workflow_id`, which distinguishes the two: a request may be named like a place.
    Its record key is `closed:` and its name. In records of versions before, that of a request was
    its id alone.
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
    def name(self) -> str:
        """The request with its workflow, or the position, that the key names."""
        if self.workflow_id is None:
            return f"{SEPARATOR}{self.closes}"
        return RequestKey(self.workflow_id, self.closes).record_key()

    @property
    def is_place(self) -> bool:
        """Whether the record itself is closed, and no request id."""
        return self.workflow_id is None


class _Base64:
    """Bytes that are base64 in JSON, which Pydantic reads itself, and also in Python data."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        plain = handler(bytes)
        python = core_schema.no_info_before_validator_function(_unpacked, plain)
        return core_schema.json_or_python_schema(plain, python)


def _unpacked(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return base64.b64decode(given, altchars=b"-_", validate=True)
    except ValueError:
        raise ValueError("base64") from None


Packed = Annotated[bytes, _Base64]
CLOSED_IDS_KEY = "closed_ids:"
KEY_BYTES, REST_BYTES, OWNER_BYTES = 8, 12, 4

CHUNK_DIGITS_MAX = 18  # of a chunk's number: less than 2^63
_CHUNK_NUMBER = f"[0-9]{{1,{CHUNK_DIGITS_MAX}}}"


class ClosedIdsRecord(Wire):
    """Many closed ids at once, packed: it takes the place of as many `closed` records.

    Three columns, sorted by `keys`: the first 8 bytes of the SHA-256 of a name (see ClosedRecord);
    its next 4, and the first 8 of the digest of its body; the hash of its workflow, by which
    partitions are found (of a place 4 times 255). `offset` is the greatest of theirs, `since` and
    `until` are when the first and the last was closed, and `at` is when this was written. A lane
    numbers its chunks without gaps; one may take the place of a few, and `covers`
    so many numbers up to its own. A move names those that it brings otherwise.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    kind: Literal["closed_ids"] = "closed_ids"
    v: Literal[1] = 1
    chunk: Annotated[str, Field(pattern=rf"^{_CHUNK_NUMBER}(-{_CHUNK_NUMBER})*$")]
    keys: Packed
    rests: Packed
    owners: Packed
    offset: Offset
    since: Timestamp
    until: Timestamp
    at: Timestamp
    covers: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        count, odd = divmod(len(self.keys), KEY_BYTES)
        sizes = (len(self.rests), len(self.owners))
        if odd or sizes != (count * REST_BYTES, count * OWNER_BYTES):
            raise ValueError("columns of the same length")
        keys = self.sorted_keys
        if not all(map(le, keys, islice(keys, 1, None))):  # or some would not be found
            raise ValueError("keys in their order")
        return self

    @property
    def sorted_keys(self) -> "array[int]":
        found = array("Q", self.keys)
        if sys.byteorder == "little":
            found.byteswap()
        return found


class Suspect(Wire):
    """A request that was under way when its worker ended, and how often that was so in a row."""

    request_id: RequestId
    workflow_id: WorkflowId | None = None  # None as versions before wrote it, whose word is dropped
    crashes: Count = 0  # while its call was in flight
    alone: Count = 0  # of them, while nothing else was in flight in its worker
    prepared: Count = 0  # while it was made ready for its call, or an error ended that


class SuspectRecord(Wire):
    """A record that was being taken in when its worker ended, and how often."""

    offset: Count
    crashes: Count


class WorkInProgress(Wire):
    """The work in progress of a worker, recorded so that a crash can be attributed."""

    what: Literal["record", "preparation", "call"]
    request_id: RequestId | None = None
    workflow_id: WorkflowId | None = None
    offset: Count | None = None


class LaneRecord(Wire):
    """The lane of one partition: who opened it, and how often without getting anything done.

    `partitions` is the number that the deployment uses; the topics may have more. `earlier` are
    those that it used before, latest first. `moving_to`: a move to that number is not finished.
    `group` is the consumer group of that worker: those of one group share the partitions.
    `suspects`, `suspect_record` and `watched` say what may be why workers ended. `results_at`,
    `approvals_at`, `controls_at` and `leases_at` are the next offsets to read of topics that speak
    to lanes: what stands before is applied.
    """

    kind: Literal["lane"] = "lane"
    v: Literal[1, 2] = LANE_VERSION
    partitions: Partitions
    openings_without_progress: Count
    worker: str
    at: Timestamp
    group: str | None = None
    earlier: tuple[Partitions, ...] = ()
    moving_to: Partitions | None = None
    suspects: tuple[Suspect, ...] = ()
    suspect_record: SuspectRecord | None = None
    watched: WorkInProgress | None = None
    results_at: Annotated[Count, OMIT_FALSY] = 0
    approvals_at: Annotated[Count, OMIT_FALSY] = 0
    controls_at: Annotated[Count, OMIT_FALSY] = 0
    leases_at: Annotated[Count, OMIT_FALSY] = 0


class Skipped(Wire):
    """An operator has skipped a record that no worker can read.

    It is in the topic and the partition of that record (ledger, retries or runs), and is kept as
    long. `digest` is of the record's value, so that no other record at this offset is meant; where
    Kafka's clients cannot read the value, it is that of no bytes.
    """

    kind: Literal["skipped"] = "skipped"
    v: Literal[1] = 1
    offset: Offset
    digest: Digest
    problem: Reason
    by: Reason
    reason: Reason
    at: Timestamp

    @property
    def record_key(self) -> str:
        """No request has the same: `decode_request` refuses the one that would."""
        return f"{SKIPPED_KEY}{SEPARATOR}{self.offset}"


LedgerRecord = Annotated[
    AccountRecord
    | ClosedRecord
    | ClosedIdsRecord
    | LaneRecord
    | BudgetLeaseRecord
    | BudgetShareRecord
    | Skipped,
    Field(discriminator="kind"),
]
LEDGER_RECORD: TypeAdapter[LedgerRecord] = TypeAdapter(LedgerRecord)
