"""A request in its lane: what arrived, its state, and what came of it so far."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache

from answerbus.budget import Usage
from answerbus.cause import Cancelled
from answerbus.envelope import Headers
from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX
from answerbus.outcome import Origin, RetryRequest
from answerbus.private.runs import RunChildRecord, RunRecord
from answerbus.request import ContractRef, Prior, Request, TextRef
from answerbus.request_key import RequestKey
from answerbus.trace import Trace, new_trace, read_trace
from answerbus.wire import Wire, clip, format_timestamp
from services.worker.core.attempt.fallback import Failed
from services.worker.core.attempt.history import bounded_prior
from services.worker.core.attempt.reply import Reply
from services.worker.core.limits.fair_queue import FairKey
from services.worker.core.limits.forbidden import NOT_FORBIDDEN, Forbidden, judged
from services.worker.core.request.admit import Admitted, Arrival
from services.worker.core.request.life import Life, RequestEvent, RequestState
from services.worker.core.run.run import Run

PARTS_MAX = 1_024


def with_interned_parts(request: Request) -> Request:
    """The same request; of schema reference, budget and policy, each half a KiB, one for all."""
    parts: dict[str, Wire] = {"budget": request.budget, "policy": request.policy}
    if isinstance(request.answer_schema, ContractRef | TextRef):
        parts["answer_schema"] = request.answer_schema
    stated = {name: _one(part) for name, part in parts.items() if name in request.model_fields_set}
    return request.model_copy(update=stated)


@lru_cache(PARTS_MAX)
def _one(part: Wire) -> Wire:
    return part


@dataclass(frozen=True, slots=True)
class AtOffset:
    """In the requests topic: its record keeps the committed offset of the partition back."""

    offset: int


@dataclass(frozen=True, slots=True)
class InRetries:
    """In the retries topic, under a key."""

    key: bytes


Stored = AtOffset | InRetries | None
"""Where a successor finds a request.

None: among the records of its run, or of what asked it; or nowhere, if its record is gone.
"""

NOT_USED = Usage()


@dataclass(frozen=True, slots=True)
class RequestProgress:
    """The state that attempts leave to the next one, since the request arrived or its last step.

    `waits` were not counted. `used` is what the attempts of a run, or of a child, have used.
    `failed` says how attempts failed, of profiles with fallbacks.
    """

    stored: Stored = None
    prior: tuple[Prior, ...] = ()
    waits: int = 0
    used: Usage = NOT_USED
    failed: Failed = ()


@dataclass(slots=True, eq=False)
class LaneRequest:
    """One admitted request: what arrived, where it is in its lane, and what came of it so far.

    `incoming_trace` is the trace that upstream named, or the one that began here. `scope` is the
    workflow in the keys of its private records (private/runs.py). What changes is changed by the
    methods below alone: the queue hands events on, and `run` is there once an agent works on it.
    `deadline` is append time plus `ttl_s`: no call starts after it. `fair_key` says whose turn it
    takes, once it is in a queue.
    """

    request: Request
    body_digest: str
    origin: Origin
    notes: tuple[str, ...]
    size_bytes: int
    incoming_trace: Trace
    progress: RequestProgress = RequestProgress()
    forbidden: Forbidden = NOT_FORBIDDEN
    life: Life = Life()  # noqa: RUF009 - immutable
    run: Run | None = None
    scope: str | None = None
    key: RequestKey = field(init=False)
    account_id: str = field(init=False)
    deadline: datetime = field(init=False)
    fair_key: FairKey = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.key = RequestKey.of(self.request)
        self.account_id = self.request.account_id
        self.deadline = self.origin.timestamp + timedelta(seconds=self.request.ttl_s)

    def handle_event(
        self,
        event: RequestEvent,
        *,
        until: datetime | None = None,
        cause: Cancelled | None = None,
        progress: RequestProgress | None = None,
    ) -> None:
        """Change the state, and with it what it has; `progress` is what a decision leaves."""
        self.life = self.life.after(event, until, cause)
        if progress is not None:
            self.progress = progress

    def take_turns_as(self, key: FairKey) -> None:
        """A queue takes it in."""
        self.fair_key = key

    def add_note(self, note: str) -> None:
        """Notes about its admission for readers of its outcome."""
        self.notes = bounded_notes((*self.notes, note))

    def lose_record(self) -> None:
        """Its topic was created again: another record is at its offset now, and will be."""
        if isinstance(self.progress.stored, AtOffset):
            self.progress = replace(self.progress, stored=None)

    def find_record(self, offset: int) -> None:
        """A copy is at this offset: without a record, or records of a run, it is its record now."""
        is_recorded = self.request.parent or (self.run and self.run.own_steps)
        if self.progress.stored is None and not is_recorded:
            self.progress = replace(self.progress, stored=AtOffset(offset))

    def judge(self, reply: Reply, now: float, served_since: float) -> Reply:
        """The reply to a call of it, as far as others are served meanwhile; see `judged`."""
        reply, self.forbidden = judged(reply, self.forbidden, now, served_since)
        return reply

    def change_run(self, run: Run) -> None:
        """An agent begins to work on it, or its run has become another one."""
        self.run = run

    def recover(self, run: Run | None, scope: str | None) -> None:
        """What an opening found of it among the records of runs; it waits for its open calls."""
        self.run, self.scope = run, scope
        if run and run.open:
            self.await_tools_first()

    def await_tools_first(self) -> None:
        """It was found in the middle of a step: once it is the first of its workflow, it waits."""
        self.life = Life(until=self.deadline, then=RequestEvent.STEP)

    @property
    def state(self) -> RequestState:
        """Where it is in its lane."""
        return self.life.state

    @property
    def cancelled(self) -> Cancelled | None:
        """Why it is ending, if it is."""
        return self.life.cause

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Those of the request, and of the tools that worked on it."""
        return (*self.notes, *self.run.notes) if self.run else self.notes

    def seconds_left(self, now: datetime) -> float:
        """Until the deadline; negative after it."""
        return (self.deadline - now).total_seconds()

    def trace_of_call(self, call_id: str) -> Trace:
        """The span of a tool call of its run."""
        return self.incoming_trace.child(call_id)

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
        incoming_trace=incoming_trace(arrival.headers, arrival.origin, admitted.request.request_id),
        progress=RequestProgress(
            stored=AtOffset(arrival.place.offset), prior=bounded_prior(admitted.request.prior)
        ),
        scope=admitted.request.workflow_id,
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
        incoming_trace=incoming_trace(headers, entry.origin, entry.request_id),
        progress=progress_of(entry, key),
        life=Life(until=entry.not_before, then=RequestEvent.RETRY),
        scope=entry.request.workflow_id,
    )


def progress_of(entry: RetryRequest, key: bytes) -> RequestProgress:
    """The earlier attempts in an entry of the retries topic."""
    used = entry.used or NOT_USED
    return RequestProgress(InRetries(key), entry.prior, entry.waits, used, entry.failed)


def request_from_run(record: RunRecord, size_bytes: int, headers: Headers, run: Run) -> LaneRequest:
    """A request whose run is open, and which the retries topic does not have."""
    found = _request_from(record, record.notes, size_bytes, headers)
    found.recover(run, record.workflow_id)
    return found


def request_from_child(record: RunChildRecord, size_bytes: int, headers: Headers) -> LaneRequest:
    """A request that a run has asked, and on which no agent has worked yet."""
    return _request_from(record, (), size_bytes, headers)


def _request_from(
    record: RunRecord | RunChildRecord, notes: tuple[str, ...], size_bytes: int, headers: Headers
) -> LaneRequest:
    return LaneRequest(
        request=record.request,
        body_digest=record.body_digest,
        origin=record.origin,
        notes=notes,
        size_bytes=size_bytes,
        incoming_trace=incoming_trace(headers, record.origin, record.request.request_id),
        scope=record.workflow_id,
    )
