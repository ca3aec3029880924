"""Single records of a batch, byte by byte; used where aiokafka's parser fails, or must not try."""

from dataclasses import dataclass

from answerbus.client.records.unreadable import Fault

Headers = tuple[tuple[str, bytes | None], ...]

HEADERS_MAX = 1_000  # of a record; each takes more memory than the two bytes that may make it
TOO_MANY_HEADERS = Fault(f"at most {HEADERS_MAX:,} headers")
_VARINT_BYTES_MAX = 10
_MASK = 2**64 - 1


class _Broken(Exception):
    """The bytes are not what a record is made of; the text says what was expected."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a record is in its batch: `start` is behind its length, `end` behind its bytes."""

    whole: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Parts:
    """A record's content; `fault` says what is wrong with its headers, if anything."""

    timestamp: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    fault: Fault | None = None


def frame_at(payload: bytes | memoryview, at: int) -> Frame | Fault:
    """The record that begins here, as its length says."""
    try:
        length, start = _varint(payload, at, len(payload))
    except _Broken as error:
        return Fault(f"{error} where a record's length stands")
    end = start + length
    if length <= 0 or end > len(payload):
        return Fault(f"a record no longer than the {len(payload) - start} bytes that are left")
    return Frame(at, start, end)


def parts_of(payload: bytes, frame: Frame, base_offset: int, first_timestamp: int) -> Parts | Fault:
    """The parts of the record; a Fault if not even key and value can be read."""
    end = frame.end
    try:
        timestamp_delta, at = _varint(payload, frame.start + 1, end)  # behind unused attributes
        offset_delta, at = _varint(payload, at, end)
        key, at = _nullable(payload, at, end)
        value, at = _nullable(payload, at, end)
    except _Broken as error:
        return Fault(f"{error} in a record")
    try:
        headers, fault = _headers(payload, at, end)
    except _Broken as error:
        headers, fault = (), Fault(f"{error} in a record's headers")
    offset, timestamp = base_offset + offset_delta, first_timestamp + timestamp_delta
    return Parts(timestamp, offset, key, value, headers, fault)


def _headers(payload: bytes, at: int, end: int) -> tuple[Headers, Fault | None]:
    count, at = _varint(payload, at, end)
    if not 0 <= count <= HEADERS_MAX:
        return (), TOO_MANY_HEADERS
    found: list[tuple[str, bytes | None]] = []
    fault = None
    for _ in range(count):
        name, at = _nullable(payload, at, end)
        if name is None:
            raise _Broken("a header's name")
        value, at = _nullable(payload, at, end)
        text = name.decode(errors="backslashreplace")
        if text.encode() != name:
            fault = Fault("headers whose names are UTF-8")
        found.append((text, value))
    if at != end:
        raise _Broken("nothing more")
    return tuple(found), fault


def _nullable(payload: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _varint(payload, at, end)
    if length < 0:
        return None, at
    if at + length > end:
        raise _Broken(f"at most {end - at} bytes, not {length:,},")
    return payload[at : at + length], at + length


def _varint(payload: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """A zigzag number of 64 bits."""
    value = 0
    for count in range(_VARINT_BYTES_MAX):
        if at >= end:
            raise _Broken("more bytes")
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:  # the highest bit says that more follow
            value &= _MASK
            return (value >> 1) ^ -(value & 1), at
    raise _Broken("a number of at most 10 bytes")
