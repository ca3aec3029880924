"""Records in message formats 0 and 1, from brokers before Kafka 0.11."""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.record.legacy_records import LegacyRecordBatch

from answerbus.client.records.batch import RECORDS_MAX, Record, stretch
from answerbus.client.records.frames import Frame
from answerbus.client.records.payload import Payload
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unpacking import unpack
from answerbus.client.records.unreadable import Fault

OVERHEAD_BYTES: Final = 12  # offset and size, before each message
MESSAGE_BYTES_MIN: Final = 14
_OVERHEAD = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 17
_CODEC = 0x07

_BROKEN = Fault("a message of format 0 or 1 that is whole")


def legacy_records(
    place: TopicPartition, message: bytes, allowance: PollTimeBudget
) -> Iterable[Record | None]:
    """One message, or those that it wraps; what cannot be read stands as one that is unreadable.

    None: what follows has to be unpacked first.
    """
    offset, _ = _OVERHEAD.unpack_from(message)
    try:
        if not message[_ATTRIBUTES_AT] & _CODEC:
            return (_record(place, message, offset),)
        found = _wrapped(place, message, allowance)
    except Exception:  # any error of the parser means the same
        found = _BROKEN
    if isinstance(found, Fault):
        return (stretch(place, offset, offset + 1, found, -1, message),)
    return found


def _wrapped(
    place: TopicPartition, message: bytes, allowance: PollTimeBudget
) -> Iterator[Record | None] | Fault:
    """Each message was tried before the first is given: they stand or fall together."""
    offset, _ = _OVERHEAD.unpack_from(message)
    codec, packed = message[_ATTRIBUTES_AT] & _CODEC, _record(place, message, offset).value or b""
    payload = Payload(b"", 0, codec, packed, allowance, _frame_at)

    def begin(unpacked: memoryview) -> tuple[int, int] | Fault:
        payload.hold(unpacked)
        return _sound(place, unpacked, offset if message[_MAGIC_AT] else None, offset)

    found = unpack(codec, packed, begin)
    return found if isinstance(found, Fault) else _each(place, message, payload, *found)


def _sound(
    place: TopicPartition, unpacked: memoryview, wrapper: int | None, end: int
) -> tuple[int, int] | Fault:
    """How many messages there are, and what to add to their offsets; raises on a broken one."""
    at, count, last = 0, 0, -1
    while at < len(unpacked):
        frame = _frame_at(unpacked, at)
        if isinstance(frame, Fault) or count >= RECORDS_MAX:
            return _BROKEN
        one = bytes(unpacked[at : frame.end])
        offset, _ = _OVERHEAD.unpack_from(one)
        if (count and offset <= last) or one[_ATTRIBUTES_AT] & _CODEC:
            return _BROKEN
        _record(place, one, offset)
        at, count, last = frame.end, count + 1, offset
    # Format 1 counts within its wrapper, which has the offset of the last.
    first = 0 if wrapper is None else wrapper - last
    return (count, first) if count and first + last == end else _BROKEN


def _each(
    place: TopicPartition, message: bytes, payload: Payload, count: int, first: int
) -> Iterator[Record | None]:
    end, _ = _OVERHEAD.unpack_from(message)
    at = first
    while payload.index < count:
        found = payload.next()
        if found is None:
            yield None
            payload.unpack_again()
            continue
        if isinstance(found, Fault):  # there is no memory to unpack it again
            yield stretch(place, at, end + 1, found, -1, message)
            return
        held, frame = found
        one = held[frame.whole : frame.end]
        del found, held  # so that nothing here keeps what the payload lets go of
        offset = first + _OVERHEAD.unpack_from(one)[0]
        at = offset + 1
        yield _record(place, one, offset)


def _frame_at(payload: bytes | memoryview, at: int) -> Frame | Fault:
    start = at + OVERHEAD_BYTES
    if start > len(payload):
        return _BROKEN
    _, size = _OVERHEAD.unpack_from(payload, at)
    if size < MESSAGE_BYTES_MIN or start + size > len(payload):
        return _BROKEN
    return Frame(at, start, start + size)


def _record(place: TopicPartition, message: bytes, offset: int) -> ConsumerRecord:
    plain = bytearray(message)
    plain[_ATTRIBUTES_AT] &= ~_CODEC
    (found,) = LegacyRecordBatch(bytes(plain), message[_MAGIC_AT])
    return ConsumerRecord(
        place.topic,
        place.partition,
        offset,
        -1 if found.timestamp is None else found.timestamp,
        found.timestamp_type,
        found.key,
        found.value,
        None,
        -1 if found.key is None else len(found.key),
        -1 if found.value is None else len(found.value),
        (),
    )
