"""The verdict on a record that has just arrived, before anything is queued."""

from collections.abc import Mapping
from dataclasses import dataclass

from answerbus.dead_letter import (
    Cause,
    ConflictingId,
    MisroutedTwice,
    RequestTooLarge,
    UndecodableCause,
)
from answerbus.envelope import Headers, ReceivedRequest, Undecodable
from answerbus.failure import Problem
from answerbus.limits import (
    JSON_DEPTH_MAX,
    REQUEST_BYTES_MAX,
)
from answerbus.outcome import Origin
from answerbus.partition import partition_of
from answerbus.request import Request
from answerbus.request_key import RequestKey
from services.text.nesting import nests_deeper
from services.worker.core.budget.ledger import Ledger

# An event carries a request one level down, and readers of events accept JSON_DEPTH_MAX levels: a
# deeper request would make a retry that no lane could read back.
REQUEST_DEPTH_MAX = JSON_DEPTH_MAX - 8


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of the requests topic: its position, where it was first, what it decodes to."""

    place: Origin
    origin: Origin
    forwarded: bool
    value: bytes | None
    headers: Headers
    decoded: ReceivedRequest | Undecodable
    digest: str
    readable: bool = True  # else `value` is what is left of a record that no client can read

    @property
    def size_bytes(self) -> int:
        return len(self.value or b"")

    @property
    def place_id(self) -> str:
        """The id to close in the ledger when the record itself, not a request, has its event."""
        return f"{self.place.topic}-{self.place.partition}-{self.place.offset}"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request to work on."""

    request: Request
    unknown_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A copy of something known; dropped and counted."""


@dataclass(frozen=True, slots=True)
class Misrouted:
    """Another partition owns the workflow; forwarded there once."""

    owner: int
    workflow_id: str


@dataclass(frozen=True, slots=True)
class UnfitRequest:
    """A record that cannot become a request: a dead letter under the record's own place."""

    cause: Cause
    request_id: str | None
    workflow_id: str | None


Admission = Admitted | Duplicate | Misrouted | UnfitRequest


def admit(
    arrival: Arrival,
    ledger: Ledger,
    pending: Mapping[RequestKey, str],
    partitions: int,
) -> Admission:
    """Judge a record. `pending` maps the requests of the lane to the digests of their bodies."""
    handled = ledger.known_place(arrival.place_id)
    if handled and handled.has_body(arrival.digest):
        return Duplicate()  # the digest: a topic that was created again has other records there
    received = arrival.decoded
    if arrival.readable and arrival.size_bytes > REQUEST_BYTES_MAX:
        return unfit(RequestTooLarge(), received)
    if isinstance(received, Undecodable):
        return unfit(UndecodableCause(problems=received.problems), received)
    if nests_deeper(received.body, REQUEST_DEPTH_MAX):
        return unfit(UndecodableCause(problems=(_TOO_DEEP,)), received)
    request = received.request
    owner = partition_of(request.workflow_id, partitions)
    if owner != arrival.place.partition:
        return (
            unfit(MisroutedTwice(), received)
            if arrival.forwarded
            else Misrouted(owner, request.workflow_id)
        )
    key = RequestKey.of(request)
    known, digest = ledger.known(key), pending.get(key)
    if known is None and digest is None:
        return Admitted(request, received.unknown_fields)
    is_copy = known.has_body(arrival.digest) if known else digest == arrival.digest
    return Duplicate() if is_copy else unfit(ConflictingId(), received)


_TOO_DEEP = Problem.of("", "too_deep", f"at most {REQUEST_DEPTH_MAX} levels of nesting")


def unfit(cause: Cause, received: ReceivedRequest | Undecodable) -> UnfitRequest:
    """The verdict on a record, with the ids that it names."""
    if isinstance(received, Undecodable):
        return UnfitRequest(cause, received.request_id, received.workflow_id)
    return UnfitRequest(cause, received.request.request_id, received.request.workflow_id)
