"""A request in a lane: its event, its position, and its history."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from answerbus.budget import Usage
from answerbus.cause import Cancelled
from answerbus.envelope import Headers
from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX
from answerbus.outcome import Origin, RetryRequest
from answerbus.private.runs import RunChildRecord, RunRecord
from answerbus.request import Prior, Request
from answerbus.request_key import RequestKey
from answerbus.trace import Trace, new_trace, read_trace
from answerbus.wire import clip, format_timestamp
from services.worker.core.attempt.history import bounded_prior
from services.worker.core.request.admit import Admitted, Arrival
from services.worker.core.request.interned_parts import with_interned_parts
from services.worker.core.run.run import Run


class Stage(Enum):
    """Where a request stands in its lane's queue."""

    WAITING = auto()  # behind another of its workflow
    READY = auto()
    RUNNING = auto()
    DELAYED = auto()  # until `not_before`
    AWAITING_BUDGET = auto()  # until a call of its account is settled
    DONE = auto()


@dataclass(slots=True, eq=False)
class LaneRequest:
    """One admitted request.

    `offset` is its place in the lane's partition while its record still holds the watermark, else
    None. `retry_key` is that of its entry in the retries topic, if it has one, to be ended with it.
    `incoming_trace` is the trace that upstream named, or the one that began here. `run` is there
    once an agent works on it, and `used` is what attempts since its last step have used;
    `cancelled` once a person has ended it.
    """

    request: Request
    body_digest: str
    origin: Origin
    notes: tuple[str, ...]
    size_bytes: int
    offset: int | None
    incoming_trace: Trace
    prior: tuple[Prior, ...] = ()
    waits: int = 0
    retry_key: bytes | None = None
    not_before: datetime | None = None
    stage: Stage = Stage.WAITING
    run: Run | None = None
    used: Usage = field(default_factory=Usage)
    cancelled: Cancelled | None = None
    has_minimum: bool = False  # there may be a step after the one that it spent on last
    key: RequestKey = field(init=False)
    scope: str | None = field(init=False)  # see private/runs.py

    def __post_init__(self) -> None:
        self.key = RequestKey.of(self.request)
        self.scope = self.key.workflow_id

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Those of the request, and of the tools that worked on it."""
        return (*self.notes, *self.run.notes) if self.run else self.notes

    @property
    def deadline(self) -> datetime:
        """Append time plus `ttl_s`; no call starts after it."""
        return self.origin.timestamp + timedelta(seconds=self.request.ttl_s)

    def seconds_left(self, now: datetime) -> float:
        """Until the deadline; negative after it."""
        return (self.deadline - now).total_seconds()

    @property
    def trace(self) -> Trace:
        """The request's own span, under which its attempts stand."""
        return self.incoming_trace.child(self.request.request_id)

    @property
    def round(self) -> int:
        """How often operators have replayed it."""
        return self.request.replay.round if self.request.replay else 0


def bounded_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """At most 32 notes of 1 KiB, in order, each once."""
    return tuple(clip(note, NOTE_BYTES_MAX) for note in dict.fromkeys(notes))[:NOTES_MAX]


def incoming_trace(headers: Headers, origin: Origin, name: str) -> Trace:
    """The trace of a record, or one that begins here, at the span `name`.

    It is derived from where the record stood first, so that each reading finds the same.
    """
    found = read_trace(headers)
    if found is not None:
        return found
    at = format_timestamp(origin.timestamp)
    return new_trace(f"{origin.topic}/{origin.partition}/{origin.offset}/{at}", name)


def request_from_arrival(arrival: Arrival, admitted: Admitted) -> LaneRequest:
    """A request that has just arrived."""
    unknown = (f"unknown field {name} was ignored" for name in admitted.unknown_fields)
    return LaneRequest(
        request=admitted.request,
        body_digest=arrival.digest,
        origin=arrival.origin,
        notes=bounded_notes(tuple(unknown)),
        size_bytes=arrival.size_bytes,
        offset=arrival.place.offset,
        incoming_trace=incoming_trace(arrival.headers, arrival.origin, admitted.request.request_id),
        prior=bounded_prior(admitted.request.prior),
    )


def request_from_retry(
    entry: RetryRequest, key: bytes, size_bytes: int, headers: Headers
) -> LaneRequest:
    """A request that the retries topic says is still being tried."""
    return LaneRequest(
        request=with_interned_parts(entry.request),
        body_digest=entry.body_digest,
        origin=entry.origin,
        notes=entry.notes,
        size_bytes=size_bytes,
        offset=None,
        incoming_trace=incoming_trace(headers, entry.origin, entry.request_id),
        prior=entry.prior,
        waits=entry.waits,
        retry_key=key,
        not_before=entry.not_before,
        used=entry.used or Usage(),
    )


def request_from_run(record: RunRecord, size_bytes: int, headers: Headers) -> LaneRequest:
    """A request whose run is open, and which the retries topic does not have."""
    lane_request = LaneRequest(
        request=record.request,
        body_digest=record.body_digest,
        origin=record.origin,
        notes=record.notes,
        size_bytes=size_bytes,
        offset=None,
        incoming_trace=incoming_trace(headers, record.origin, record.request.request_id),
    )
    lane_request.scope = record.workflow_id
    return lane_request


def request_from_child(record: RunChildRecord, size_bytes: int, headers: Headers) -> LaneRequest:
    """A request that a run has asked, and on which no agent has worked yet."""
    lane_request = LaneRequest(
        request=record.request,
        body_digest=record.body_digest,
        origin=record.origin,
        notes=(),
        size_bytes=size_bytes,
        offset=None,
        incoming_trace=incoming_trace(headers, record.origin, record.request.request_id),
    )
    lane_request.scope = record.workflow_id
    return lane_request
