"""A record of the requests topic: what it asks for, whose it is, and where it was first."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.audit import schemas
from tests.chaos.audit.canonical import NotStrictError, digest, owner, read_json
from tests.chaos.audit.record import Record

FORWARDED = "answerbus_forwarded"
TTL_S_DEFAULT = 3600
BYTES_MAX = 512 * 1024  # of a request

Place = tuple[int, int]  # partition, offset

_FIRST = re.compile(r"(\d+)/(\d+)/(\d+)")


@dataclass(frozen=True, slots=True)
class Arrival:
    """`request_id` is None for an invalid request; then `body` is empty and nobody owns it.

    A copy is what a worker forwarded; its `first_place` and `asked_at` are those of the original.
    """

    record: Record
    place: Place
    place_id: str
    is_copy: bool
    first_place: Place
    asked_at: datetime
    body: dict[str, Any]
    request_id: str | None
    body_digest: str | None
    owner: int | None

    @property
    def dead_letter_id(self) -> str:
        """The id of a dead letter about this very record."""
        return f"{self.place_id}.dead-letter"

    @property
    def deadline(self) -> datetime:
        """When the request has run out of time."""
        return self.asked_at + timedelta(seconds=self.body.get("ttl_s", TTL_S_DEFAULT))


def arrival_of(record: Record, topic: str, partitions: int) -> Arrival:
    """Read a record; nothing in it makes this fail."""
    place = record.partition, record.offset
    body = _request(record.value)
    copied = _FIRST.fullmatch(record.header(FORWARDED) or "")
    partition, offset, milliseconds = map(int, copied.groups()) if copied else (*place, None)
    return Arrival(
        record=record,
        place=place,
        place_id=f"{topic}-{place[0]}-{place[1]}",
        is_copy=copied is not None,
        first_place=(partition, offset),
        asked_at=(
            record.timestamp
            if milliseconds is None
            else datetime.fromtimestamp(milliseconds / 1000, UTC)
        ),
        body=body or {},
        request_id=body["request_id"] if body else None,
        body_digest=digest(body) if body else None,
        owner=owner(body["workflow_id"], partitions) if body else None,
    )


def _request(value: bytes | None) -> dict[str, Any] | None:
    """The body, if the committed schema says that it is a request."""
    try:
        body = read_json(value)
    except NotStrictError:
        return None
    return None if len(value or b"") > BYTES_MAX or schemas.faults("request", body) else dict(body)
