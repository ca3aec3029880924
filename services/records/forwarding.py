"""The header of a forwarded record with its original position."""

import re
from datetime import timedelta

from answerbus.broker_time import EPOCH, milliseconds
from answerbus.envelope import Headers
from answerbus.outcome import Origin
from answerbus.topics import REQUESTS

FORWARDED_HEADER = "answerbus_forwarded"
DELAY_MAX = timedelta(milliseconds=REQUESTS.retention_ms or 0)  # then the first place is gone
_PLACE = re.compile(rb"(\d{1,9})/(\d{1,18})/(\d{1,14})")


def header_of(origin: Origin) -> tuple[str, bytes]:
    """The header of a forwarded copy: partition, offset, and append time in ms."""
    at_ms = milliseconds(origin.timestamp)
    return FORWARDED_HEADER, f"{origin.partition}/{origin.offset}/{at_ms}".encode()


def is_forwarded(headers: Headers) -> bool:
    """Whether a record says that it was forwarded, in the form that we write: once is enough."""
    return _written(headers) is not None


def first_place(headers: Headers, place: Origin) -> Origin | None:
    """Where a forwarded record, which is at `place` now, was first.

    Anyone who may publish may write this header. What no worker can have written is not believed:
    another partition, not later than the copy, and not longer ago than requests are kept. So a
    header that lies makes the deadline of its own request earlier, and that is all it does.
    """
    found = _written(headers)
    if found is None:
        return None
    partition, offset, at_ms = (int(number) for number in found.groups())
    moment = EPOCH + timedelta(milliseconds=at_ms)
    is_possible = place.timestamp - DELAY_MAX <= moment <= place.timestamp
    if partition == place.partition or not is_possible:
        return None
    return Origin(topic=place.topic, partition=partition, offset=offset, timestamp=moment)


def without_header(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers that a copy takes over."""
    return [(name, content) for name, content in headers if name != FORWARDED_HEADER]


def _written(headers: Headers) -> "re.Match[bytes] | None":
    written = [content for name, content in headers if name == FORWARDED_HEADER]
    return _PLACE.fullmatch(written[0] or b"") if len(written) == 1 else None
