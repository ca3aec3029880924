"""The header by which a forwarded record tells where it stood first."""

import re
from datetime import UTC, datetime, timedelta

from answerbus.envelope import Headers
from answerbus.outcome import Origin

FORWARDED_HEADER = "answerbus_forwarded"
_PLACE = re.compile(rb"(\d{1,9})/(\d{1,18})/(\d{1,14})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def header_of(origin: Origin) -> tuple[str, bytes]:
    """What a forwarded copy carries: partition, offset, and append time in ms."""
    milliseconds = (origin.timestamp - _EPOCH) // _MILLISECOND
    return FORWARDED_HEADER, f"{origin.partition}/{origin.offset}/{milliseconds}".encode()


def first_place(headers: Headers, topic: str) -> Origin | None:
    """Where a forwarded record stood first, if its header says so in the form that we write."""
    written = [content for name, content in headers if name == FORWARDED_HEADER]
    found = _PLACE.fullmatch(written[-1] or b"") if written else None
    if found is None:
        return None
    partition, offset, milliseconds = (int(number) for number in found.groups())
    moment = _EPOCH + milliseconds * _MILLISECOND
    return Origin(topic=topic, partition=partition, offset=offset, timestamp=moment)
