"""Records for the broker: events of a lane's partition, and dead letters on raw records."""

import base64
from datetime import datetime
from typing import NamedTuple

from answerbus import topics
from answerbus.attempt import Attempt
from answerbus.continued_call import ToolContinue
from answerbus.dead_letter import DeadLetter, Raw
from answerbus.envelope import Headers, encode, headers_of
from answerbus.event import Event
from answerbus.limits import (
    ENVELOPE_EXTRA_BYTES_MAX,
    RAW_BYTES_MAX,
    RAW_HEADER_BYTES_MAX,
    RAW_HEADERS_MAX,
)
from answerbus.outcome import RetryRequest
from answerbus.private.ledger import CLOSED_KEY, ClosedOutcome, ClosedRecord
from answerbus.reconcile import ToolReconcile
from answerbus.run_event import RunEvent
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_event import ToolEvent
from answerbus.topics import RETRIES
from answerbus.trace import Trace, read_trace
from answerbus.wire import bytes_digest, format_timestamp
from services.records.forwarding import header_of, without_header
from services.worker.core.budget.account import Account
from services.worker.core.budget.ledger import closed_record
from services.worker.core.outcome.decision import Outcome
from services.worker.core.request.admit import Arrival, UnfitRequest
from services.worker.core.request.lane_request import LaneRequest, incoming_trace
from services.worker.lane.state.oversized import Oversized
from services.worker.ports.kafka import About, LateRecord, Outgoing, OutRecord

ACCOUNT_BYTES = 400  # about what an account weighs in the ledger
SPEND_BYTES = 100  # and each call in flight or request under way


class LaneWrite(NamedTuple):
    """Records for one transaction, and the offset that is committed with them."""

    records: tuple[Outgoing, ...]
    offset: int | None


def event_record(
    event: Event, partition: int, trace: Trace | None = None, about: About | None = None
) -> OutRecord:
    """An event for this lane's partition of the topic that its kind belongs to."""
    encoded = encode(event, trace=None if trace is None else trace.headers())
    topic = topics.TOPIC_OF_KIND[event.kind]
    return OutRecord(topic, partition, encoded.key, encoded.value, encoded.headers, about)


def run_event_record(
    event: RunEvent | ToolEvent,
    partition: int,
    trace: Trace | None = None,
    about: About | None = None,
) -> OutRecord:
    """An event of a run; a call goes to the topic of its toolset, placed there by its id."""
    if not isinstance(event, ToolCallRecord | ToolContinue | ToolCancel | ToolReconcile):
        return event_record(event, partition, trace, about)
    encoded = encode(event, trace=None if trace is None else trace.headers())
    topic = topics.tool_calls(event.toolset)
    return OutRecord(topic, None, encoded.key, encoded.value, encoded.headers, about)


def run_tombstone(key: str, partition: int) -> OutRecord:
    """The null value that ends a private record of a run."""
    return OutRecord(topics.RUNS, partition, key.encode(), None, [])


def outcome_record(
    outcome: Outcome, lane_request: LaneRequest, partition: int, oversized: Oversized
) -> OutRecord:
    """An outcome; a retry carries what its request came with, so that this outlives the worker."""
    if isinstance(outcome, DeadLetter):
        return _dead_letter_record(outcome, partition, lane_request.trace, oversized)
    is_retry = isinstance(outcome, RetryRequest)
    trace = lane_request.incoming_trace if is_retry else lane_request.trace
    return event_record(outcome, partition, trace, lane_request.key)


def attempt_record(attempt: Attempt, lane_request: LaneRequest, partition: int) -> OutRecord:
    """An attempt, with a span of its own in the trace that its request came with."""
    trace = lane_request.incoming_trace.child(attempt.event_id)
    return event_record(attempt, partition, trace, lane_request.key)


def orphan_record(attempt: Attempt, incoming_trace: Trace | None, partition: int) -> OutRecord:
    """That of a call which nobody can settle any more, of a request that may not be known."""
    trace = None if incoming_trace is None else incoming_trace.child(attempt.event_id)
    return event_record(attempt, partition, trace)


def unfit_record(
    dead_letter: DeadLetter, arrival: Arrival, partition: int, oversized: Oversized
) -> OutRecord:
    """The dead letter of a record that cannot become a request."""
    trace = incoming_trace(arrival.headers, arrival.origin, arrival.place_id)
    return _dead_letter_record(dead_letter, partition, trace.child(arrival.place_id), oversized)


def _dead_letter_record(
    whole: DeadLetter, partition: int, trace: Trace, oversized: Oversized
) -> OutRecord:
    """Without what is not needed, as far as the whole dead letter is too large."""
    cut: dict[str, object] = {"base64": "", "headers": (), "truncated": True}
    raw = whole.raw and whole.raw.model_copy(update=cut)
    some: dict[str, object] = {"prior": (), "notes": ()}
    record = event_record(whole, partition, trace, whole.dead_letter_id)
    for left_out in (some, some | {"request": None, "labels": {}, "raw": raw}):
        if oversized.may_fit(record):
            break
        dead_letter = whole.model_copy(update=left_out)
        record = event_record(dead_letter, partition, trace, whole.dead_letter_id)
    return record


def account_record(account: Account, partition: int) -> LateRecord:
    """An account as it is now; of all that one transaction says of it, the last is enough."""
    name = account_key(account.id)
    return LateRecord(
        topics.LEDGER,
        partition,
        name.encode(),
        _ledger_headers("account", name, account.updated_at, account.workflow_id),
        ACCOUNT_BYTES + SPEND_BYTES * (len(account.in_flight) + len(account.open)),
        account.snapshot().json,
    )


def closed_entry(closed: ClosedRecord, partition: int) -> OutRecord:
    """As `event_record` makes it, without a search for key and topic: each request has one."""
    name = f"{CLOSED_KEY}{closed.name}"
    headers = _ledger_headers(closed.kind, name, closed.at, closed.workflow_id)
    value = closed.model_dump_json().encode()
    return OutRecord(topics.LEDGER, partition, name.encode(), value, headers)


def _ledger_headers(
    kind: str, name: str, at: datetime, workflow_id: str | None
) -> list[tuple[str, bytes]]:
    return headers_of(kind, ce_id=name, ce_time=format_timestamp(at), ce_subject=workflow_id)


def account_key(account_id: str) -> str:
    """Under which the ledger has an account."""
    return f"account:{account_id}"


def retry_tombstone(key: bytes, partition: int) -> OutRecord:
    """The null value that takes a request off the list of what is still being tried."""
    return OutRecord(RETRIES, partition, key, None, [])


def ledger_tombstone(key: str, partition: int) -> OutRecord:
    """The null value that ends what the ledger said under a key."""
    return OutRecord(topics.LEDGER, partition, key.encode(), None, [])


def forwarded_record(arrival: Arrival, workflow_id: str, owner: int) -> OutRecord:
    """The very record for its owner's partition, with the place and time of its first append."""
    own = without_header(arrival.headers)
    kept = [(name, content) for name, content in own if content is not None]
    if sum(len(name.encode()) + len(content) for name, content in kept) > ENVELOPE_EXTRA_BYTES_MAX:
        # The record must fit; the body is complete in itself.
        trace = read_trace(kept)
        kept = [(name, text.encode()) for name, text in trace.headers().items()] if trace else []
    headers = [*kept, header_of(arrival.origin)]
    key = workflow_id.encode()
    return OutRecord(topics.REQUESTS, owner, key, arrival.value, headers, arrival.place_id)


def home_partition(partition: int, partitions: int) -> int:
    """The partition for a lane's events, or a fallback if its own is no longer used."""
    return partition % partitions


def closed_position(
    arrival: Arrival, outcome: ClosedOutcome, partitions: int, now: datetime
) -> ClosedRecord:
    """The entry by which a record that was no request here is known if it is delivered again."""
    place = arrival.place
    offset = place.offset if place.partition < partitions else 0  # 0: of no meaning in its home
    return closed_record(arrival.place_id, None, arrival.digest, outcome, offset, now)


def unfit_dead_letter(unfit: UnfitRequest, arrival: Arrival, now: datetime) -> DeadLetter:
    """A dead letter about a record that cannot become a request, with its bytes."""
    return DeadLetter(
        dead_letter_id=f"{arrival.place_id}.dead-letter",
        request_id=unfit.request_id,
        workflow_id=unfit.workflow_id,
        cause=unfit.cause,
        request=None,
        raw=raw(arrival.value, arrival.headers),
        origin=arrival.place,
        account=None,
        at=now,
    )


def raw(value: bytes | None, headers: Headers) -> Raw:
    """The bytes of a record, as far as a dead letter can hold them."""
    held = value or b""
    return Raw(
        base64=None if value is None else base64.b64encode(held[:RAW_BYTES_MAX]).decode(),
        bytes=len(held),
        digest=bytes_digest(held),
        truncated=len(held) > RAW_BYTES_MAX or _headers_cut(headers),
        headers=tuple(
            (_clip_name(name), _encoded(content)) for name, content in headers[:RAW_HEADERS_MAX]
        ),
    )


def _headers_cut(headers: Headers) -> bool:
    return len(headers) > RAW_HEADERS_MAX or any(
        len(content or b"") > RAW_HEADER_BYTES_MAX for _, content in headers
    )


def _clip_name(name: str) -> str:
    return name.encode(errors="replace")[:RAW_HEADER_BYTES_MAX].decode(errors="replace")


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content[:RAW_HEADER_BYTES_MAX]).decode()
