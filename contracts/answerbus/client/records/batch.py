"""One batch of records, read so that each offset in it is a record or stands as unreadable."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.record.default_records import DefaultRecordBatch

from answerbus.client.records.frames import (
    HEADERS_MAX,
    TOO_MANY_HEADERS,
    Frame,
    Headers,
    Parts,
    frame_at,
    parts_of,
)
from answerbus.client.records.unpacking import unpack
from answerbus.client.records.unreadable import Extent, Fault, Unreadable

RECORDS_MAX: Final = 131_072  # of a batch; more than 1 MiB can hold that is not compressed
# aiokafka's parser is fast, and makes all headers of a record at once: 8 million of them fit in
# 16 MiB. What is larger goes through ours, which counts before it makes any.
QUICK_BYTES_MAX: Final = 256 * 1024

Record: TypeAlias = ConsumerRecord | Unreadable

_HEAD = struct.Struct(">qiibIhiqqqhii")
_CODEC_AT = struct.calcsize(">qiibI") + 1  # the lower byte of the attributes
HEAD_BYTES: Final = _HEAD.size
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class Head(NamedTuple):
    """The fixed part of a batch of format 2, as Kafka's protocol names it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @classmethod
    def of(cls, batch: bytes) -> "Head":
        """Raises struct.error if the batch is too short."""
        return cls(*_HEAD.unpack_from(batch))

    @property
    def end(self) -> int:
        """The offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """How its records are compressed; 0 is not at all."""
        return self.attributes & _CODEC

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it marks the end of a transaction."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_append_time(self) -> bool:
        """Whether all of its records have the time at which the broker took them."""
        return bool(self.attributes & _APPEND_TIME)


@dataclass(slots=True)
class BatchReader:
    """Reads one batch; `wanted` is the first offset that anyone asks for.

    Offsets rise within a batch, and leave room for the records that follow. A record that says
    another offset would hide some, so it is unreadable at the first offset that it can have.
    """

    place: TopicPartition
    batch: bytes
    parsed: DefaultRecordBatch  # of the whole batch; aiokafka's parser
    head: Head
    wanted: int
    _next: int = field(init=False)  # the least offset that the next record can have

    def __post_init__(self) -> None:
        self._next = self.head.base_offset

    def records(self) -> Iterable[Record]:
        """All records from `wanted` on, maybe some before, and what stands for unreadable ones."""
        head = self.head
        if not 0 <= head.records <= min(head.last_offset_delta + 1, RECORDS_MAX):
            return (self.rest(Fault(f"a batch of at most {RECORDS_MAX:,} records, with offsets")),)
        payload = self.batch[HEAD_BYTES:]
        if head.codec:
            unpacked = unpack(head.codec, payload)
            if isinstance(unpacked, Fault):
                return (self.rest(unpacked),)
            payload = unpacked
        found: list[Record] = []
        if len(payload) <= QUICK_BYTES_MAX:
            self._quick(payload, found)
            if len(found) == head.records:
                return found
        return chain(found, self._thorough(payload, len(found)))

    def _quick(self, payload: bytes, found: list[Record]) -> None:
        """Through aiokafka's parser, until it fails. It reads one byte too far: bytes end in 0."""
        head, (topic, partition) = self.head, self.place
        parsed, room = iter(self._plain(payload)), head.end - head.records
        append_time = head.max_timestamp if head.is_append_time else None
        for index in range(head.records):
            try:
                record = next(parsed)
            except Exception:  # the thorough parser says where and why
                return
            offset, key, value, headers = record.offset, record.key, record.value, record.headers
            timestamp = record.timestamp if append_time is None else append_time
            if not self._next <= offset <= room + index or len(headers) > HEADERS_MAX:
                fault = None if len(headers) <= HEADERS_MAX else TOO_MANY_HEADERS
                parts = Parts(timestamp, offset, key, value, tuple(headers), fault)
                found.append(self._checked(index, parts))
                continue
            self._next = offset + 1
            found.append(
                ConsumerRecord(
                    topic,
                    partition,
                    offset,
                    timestamp,
                    int(append_time is not None),
                    key,
                    value,
                    None,
                    -1 if key is None else len(key),
                    -1 if value is None else len(value),
                    tuple(headers),
                )
            )

    def _plain(self, payload: bytes) -> DefaultRecordBatch:
        """The parser over records that are not compressed, or no longer."""
        if not self.head.codec:
            return self.parsed
        head = bytearray(self.batch[:HEAD_BYTES])
        head[_CODEC_AT] &= ~_CODEC
        return DefaultRecordBatch(bytes(head) + payload)

    def _thorough(self, payload: bytes, done: int) -> Iterator[Record]:
        """Through our own parser, behind the records that are done."""
        head, at, skipped = self.head, 0, done
        is_full = head.records == head.last_offset_delta + 1
        if is_full:
            skipped = max(done, self.wanted - head.base_offset)
        for index in range(head.records):
            frame = frame_at(payload, at)
            if isinstance(frame, Fault):
                yield self.rest(frame)
                return
            at = frame.end
            if index >= skipped:
                yield self._parsed(index, payload, frame)
            elif is_full:
                self._next = head.base_offset + index + 1

    def _parsed(self, index: int, payload: bytes, frame: Frame) -> Record:
        parts = parts_of(payload, frame, self.head.base_offset, self.head.first_timestamp)
        if isinstance(parts, Fault):
            return self._unreadable("record", parts, value=payload[frame.whole : frame.end])
        return self._checked(index, parts)

    def _checked(self, index: int, parts: Parts) -> Record:
        head, key, value = self.head, parts.key, parts.value
        if not self._next <= parts.offset <= head.end - head.records + index:
            fault = Fault(f"a record that says its offset, {self._next}")
            return self._unreadable("offset", fault, key, value, parts.headers)
        self._next = parts.offset
        if parts.fault:
            return self._unreadable("headers", parts.fault, key, value, parts.headers)
        self._next += 1
        return ConsumerRecord(
            self.place.topic,
            self.place.partition,
            parts.offset,
            head.max_timestamp if head.is_append_time else parts.timestamp,
            int(head.is_append_time),
            key,
            value,
            None,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            parts.headers,
        )

    def _unreadable(
        self,
        extent: Extent,
        fault: Fault,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers = (),
    ) -> Unreadable:
        at, self._next = self._next, self._next + 1
        return Unreadable(
            self.place.topic,
            self.place.partition,
            at,
            self._next,
            self.head.max_timestamp,
            extent,
            fault.expected,
            key,
            value,
            headers,
        )

    def rest(self, fault: Fault) -> Unreadable:
        """All offsets that are left, of records that cannot be told apart."""
        end, at = max(self.head.end, self._next + 1), self._next
        return stretch(self.place, at, end, fault, self.head.max_timestamp, self.batch)


def stretch(
    place: TopicPartition, offset: int, end: int, fault: Fault, timestamp: int, batch: bytes
) -> Unreadable:
    """What stands for the rest of a batch, or all of it."""
    return Unreadable(
        place.topic, place.partition, offset, end, timestamp, "batch", fault.expected, None, batch
    )
