"""Reads one batch of records: each offset becomes a record or an unreadable stretch."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

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
from answerbus.client.records.head import CODEC, CODEC_AT, HEAD_BYTES, Head
from answerbus.client.records.poll_time_budget import PollTimeBudget
from answerbus.client.records.unpacking import unpack
from answerbus.client.records.unreadable import Extent, Fault, Unreadable


@dataclass(slots=True)
class Payload:
    """Gives records in order; `index` counts those that are passed.

    What is behind the part that is held is unpacked again when it is reached: to unpack twice
    costs milliseconds, and to keep it costs memory for as long as its reader likes.
    """

    held: bytes = b""
    at: int = 0  # of the next record, in what is held
    codec: int = 0
    packed: bytes | memoryview = b""
    allowance: PollTimeBudget | None = None
    index: int = 0
    _is_last: bool = True  # nothing is behind what is held
    _before: int = 0  # bytes before what is held
    _fault: Fault | None = None  # where the next record should stand

    def skip(self, whole: bytes | memoryview, count: int) -> None:
        """Skip `count` records, or as many as there are."""
        for _ in range(count):
            frame = frame_at(whole, self.at)
            if isinstance(frame, Fault):
                return
            self.at = frame.end
            self.index += 1

    def hold(self, unpacked: memoryview) -> None:
        """Keep it from the next record on, until the reader has what it wants for now."""
        begin = self._before + self.at
        frame = frame_at(unpacked, begin)
        if isinstance(frame, Fault):
            self._fault = frame
            return
        self.held, self.at, self._before = bytes(unpacked[begin:]), 0, begin
        self._is_last = True
        if self.allowance is not None:
            self.allowance.take(len(self.held), self._trim)

    def _trim(self) -> None:
        """Keep no more than the share."""
        if self.allowance is None or len(self.held) <= self.allowance.share_bytes:
            return
        end = self.at + self.allowance.share_bytes
        self._is_last = end >= len(self.held)
        self.held, self._before, self.at = self.held[self.at : end], self._before + self.at, 0

    def unpack_again(self) -> None:
        """Hold the part that comes next."""
        self.held, self._before, self.at = b"", self._before + self.at, 0
        found = unpack(self.codec, bytes(self.packed), self.hold)
        if isinstance(found, Fault):
            self._fault = found

    def next(self) -> tuple[bytes, Frame] | Fault | None:
        """The next record's bytes, and where in them it stands.

        None: it has to be unpacked first.
        """
        if self._fault:
            return self._fault
        held, frame = self.held, frame_at(self.held, self.at)
        if isinstance(frame, Fault):
            return frame if self._is_last else None
        self.at = frame.end
        self.index += 1
        if self.at == len(held):  # so that a large record is not kept while its reader waits
            self.held, self._before, self.at = b"", self._before + self.at, 0
        return held, frame


RECORDS_MAX: Final = 131_072  # of a batch; more than 1 MiB can hold that is not compressed
# aiokafka's parser is fast, and makes all headers of a record at once: 8 million of them fit in
# 16 MiB. What is larger goes through ours, which counts before it makes any.
QUICK_BYTES_MAX: Final = 256 * 1024

Record: TypeAlias = ConsumerRecord | Unreadable


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
    allowance: PollTimeBudget
    _next: int = field(init=False)  # the least offset that the next record can have

    def __post_init__(self) -> None:
        self._next = self.head.base_offset

    def records(self) -> Iterable[Record | None]:
        """All records from `wanted` on, maybe some before, and what stands for unreadable ones.

        None: what follows has to be unpacked first.
        """
        head = self.head
        if not 0 <= head.records <= min(head.last_offset_delta + 1, RECORDS_MAX):
            return (self.rest(Fault(f"a batch of at most {RECORDS_MAX:,} records, with offsets")),)
        if not head.codec:
            return self._all(Payload(self.batch, HEAD_BYTES))
        payload = unpack(head.codec, self.batch[HEAD_BYTES:], self._held)
        return (self.rest(payload),) if isinstance(payload, Fault) else self._all(payload)

    def _held(self, unpacked: memoryview) -> Payload:
        """All of it behind the batch's head if it is small, else the part that is wanted."""
        if len(unpacked) <= QUICK_BYTES_MAX:
            self.allowance.take(len(unpacked))
            head = bytearray(self.batch[:HEAD_BYTES])
            head[CODEC_AT] &= ~CODEC
            return Payload(b"".join((head, unpacked)), HEAD_BYTES)
        packed = memoryview(self.batch)[HEAD_BYTES:]
        payload = Payload(b"", 0, self.head.codec, packed, self.allowance)
        payload.skip(unpacked, self._records_to_skip)
        payload.hold(unpacked)
        return payload

    @property
    def _records_to_skip(self) -> int:
        """Records before the first that anyone asks for, if their count says so."""
        head = self.head
        is_full = head.records == head.last_offset_delta + 1
        return min(max(0, self.wanted - head.base_offset), head.records) if is_full else 0

    def _all(self, payload: Payload) -> Iterator[Record | None]:
        """A bug of ours, or of a library, costs no more than the rest of the batch."""
        try:
            done = 0
            if payload.at and len(payload.held) <= HEAD_BYTES + QUICK_BYTES_MAX:
                done = yield from self._with_aiokafka(payload.held)
            if done < self.head.records:
                yield from self._with_own_parser(payload, done)
        except Exception as error:
            yield self.rest(broken_by(error))

    def _with_aiokafka(self, plain: bytes) -> Generator[Record, None, int]:
        """Through aiokafka's parser, until it fails. It reads one byte too far: bytes end in 0."""
        head, (topic, partition) = self.head, self.place
        parsed = iter(DefaultRecordBatch(plain) if head.codec else self.parsed)
        room, append_time = head.end - head.records, head.is_append_time
        for index in range(head.records):
            try:
                record = next(parsed)
            except Exception:  # the thorough parser says where and why
                return index
            offset, key, value, headers = record.offset, record.key, record.value, record.headers
            timestamp = head.max_timestamp if append_time else record.timestamp
            if not self._next <= offset <= room + index or len(headers) > HEADERS_MAX:
                fault = None if len(headers) <= HEADERS_MAX else TOO_MANY_HEADERS
                read = () if fault else tuple(headers)
                yield self._checked(index, Parts(timestamp, offset, key, value, read, fault))
                continue
            self._next = offset + 1
            yield ConsumerRecord(
                topic,
                partition,
                offset,
                timestamp,
                int(append_time),
                key,
                value,
                None,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                tuple(headers),
            )
        return head.records

    def _with_own_parser(self, payload: Payload, done: int) -> Iterator[Record | None]:
        """Through our own parser, behind the records that are done."""
        head, to_skip = self.head, self._records_to_skip
        payload.skip(payload.held, max(done, to_skip) - payload.index)
        if to_skip:
            self._next = head.base_offset + payload.index
        while payload.index < head.records:
            found = payload.next()
            if found is None:
                yield None
                payload.unpack_again()
            elif isinstance(found, Fault):
                yield self.rest(found)
                return
            else:
                record = self._parsed(payload.index - 1, *found)
                del found  # so that nothing here keeps what the payload lets go of
                yield record

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
        """All offsets that are left, of records that cannot be separated."""
        end, at = max(self.head.end, self._next + 1), self._next
        return stretch(self.place, at, end, fault, self.head.max_timestamp, self.batch)


def stretch(
    place: TopicPartition, offset: int, end: int, fault: Fault, timestamp: int, batch: bytes
) -> Unreadable:
    """The placeholder for the rest of a batch, or all of it."""
    return Unreadable(
        place.topic, place.partition, offset, end, timestamp, "batch", fault.expected, None, batch
    )


def broken_by(error: Exception) -> Fault:
    """The fault of bytes that a parser cannot read."""
    return Fault(f"a batch that can be read ({type(error).__name__})")
