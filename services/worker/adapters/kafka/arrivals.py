"""Records of the requests topic as the core sees them; nothing in a record can make this fail."""

from answerbus.broker_time import moment
from answerbus.client.records.batch import Record
from answerbus.client.records.unreadable import Unreadable
from answerbus.envelope import Headers, ReceivedRequest, Undecodable, decode_request
from answerbus.outcome import Origin
from answerbus.wire import bytes_digest
from services.records.forwarding import first_place, is_forwarded
from services.worker.core.request.admit import Arrival
from services.worker.core.request.known_schemas import KnownSchemas


def arrival(record: Record, schemas: KnownSchemas) -> Arrival:
    """A record as the core sees it; nothing in it can make this fail."""
    headers: Headers = list(record.headers)
    place = _place(record)
    decoded, digest = (
        (_unreadable(record), bytes_digest(record.value or b""))
        if isinstance(record, Unreadable)
        else schemas.decode(record.value, headers)
    )
    return Arrival(
        place=place,
        origin=first_place(headers, place) or place,
        forwarded=is_forwarded(headers),
        value=record.value,
        headers=headers,
        decoded=decoded,
        digest=digest,
        readable=not isinstance(record, Unreadable),
    )


def bare_arrival(record: Record) -> Arrival:
    """A record as its place and its bytes alone, for one that must not be looked into."""
    place = _place(record)
    return Arrival(
        place=place,
        origin=place,
        forwarded=False,
        value=record.value,
        headers=list(record.headers),
        decoded=Undecodable(()),
        digest=bytes_digest(record.value or b""),
    )


def _place(record: Record) -> Origin:
    return Origin(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=moment(record.timestamp),
    )


def _unreadable(record: Unreadable) -> Undecodable:
    """With the ids of a record that cannot be read, so that its waiting client is informed."""
    if not record.has_value:
        return Undecodable((record.problem,))
    found = decode_request(record.value)
    ids = found.request if isinstance(found, ReceivedRequest) else found
    return Undecodable((record.problem,), ids.request_id, ids.workflow_id)
