"""Records of the formats 0 and 1, which brokers before Kafka 0.11 wrote."""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.record.legacy_records import LegacyRecordBatch

from answerbus.client.records.batch import Record, stretch
from answerbus.client.records.unpacking import unpack
from answerbus.client.records.unreadable import Fault

OVERHEAD_BYTES: Final = 12  # offset and size, before each message
MESSAGE_BYTES_MIN: Final = 14
_OVERHEAD = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 17
_CODEC = 0x07

_BROKEN = Fault("a message of format 0 or 1 that is whole")


def legacy_records(place: TopicPartition, message: bytes) -> Sequence[Record]:
    """One message, or those that it wraps; what cannot be read stands as one that is unreadable."""
    offset, _ = _OVERHEAD.unpack_from(message)
    try:
        found = _records(place, message)
    except Exception:  # whatever the parser stumbles over
        found = _BROKEN
    if isinstance(found, Fault):
        return (stretch(place, offset, offset + 1, found, -1, message),)
    return found


def _records(place: TopicPartition, message: bytes) -> list[ConsumerRecord] | Fault:
    offset, _ = _OVERHEAD.unpack_from(message)
    codec = message[_ATTRIBUTES_AT] & _CODEC
    if not codec:
        return [_record(place, message, offset)]
    wrapper = _record(place, message, offset)
    inner = unpack(codec, wrapper.value or b"")
    if isinstance(inner, Fault):
        return inner
    messages = list(_split(inner))
    if not messages:
        return _BROKEN
    last, _ = _OVERHEAD.unpack_from(messages[-1])
    # Format 1 counts within its wrapper, which has the offset of the last.
    first = offset - last if message[_MAGIC_AT] else 0
    records = [_record(place, one, first + _OVERHEAD.unpack_from(one)[0]) for one in messages]
    offsets = [record.offset for record in records]
    is_rising = all(one < other for one, other in pairwise(offsets))
    nests = any(one[_ATTRIBUTES_AT] & _CODEC for one in messages)
    return records if is_rising and offsets[-1] == offset and not nests else _BROKEN


def _split(inner: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(inner):
        _, size = _OVERHEAD.unpack_from(inner, at)
        end = at + OVERHEAD_BYTES + size
        if size < MESSAGE_BYTES_MIN or end > len(inner):
            raise ValueError("a message's size is beyond the end")
        yield inner[at:end]
        at = end


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
