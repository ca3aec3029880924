"""Batches as any client could make them, from a seed: sound ones, damaged ones, and hostile ones.

Pure: `batch_of(seed, values)` gives the bytes that a Produce request carries. Checksums are right,
so that a broker looks further.
"""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import cramjam
from aiokafka.codec import snappy_encode
from aiokafka.record.util import calc_crc32c

NOW_MS = 1_790_000_000_000
BOMB_BYTES = 64 * 1024 * 1024
HEADERS_MANY = 10_000
RECORDS_MANY = 150_000


class Codec(IntEnum):
    """As the attributes of a batch say it."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@dataclass(frozen=True)
class Sent:
    """One record; what is None is told by the content."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[bytes | None, bytes | None]] = ()
    timestamp_delta: int = 0
    attributes: int = 0
    offset_delta: int | None = None
    length: int | None = None
    key_length: int | None = None
    value_length: int | None = None
    header_count: int | None = None


@dataclass(frozen=True)
class Draft:
    """A batch before it is put into bytes; what is None is told by the records."""

    records: Sequence[Sent]
    codec: Codec = Codec.NONE
    attributes: int = 0
    last_offset_delta: int | None = None
    count: int | None = None
    first_timestamp: int = NOW_MS
    max_timestamp: int = NOW_MS
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    behind: bytes = b""  # what is behind the end of the compressed bytes
    repeated: int = 1  # how often the records are written, for bombs
    payload: bytes | None = None
    sum_is_right: bool = True


@dataclass(frozen=True)
class RawBatch:
    """What is sent: `kind` names what was done to it; `records` is how many offsets it claims."""

    kind: str
    data: bytes
    values: tuple[bytes | None, ...]
    draft: Draft = field(repr=False)

    @property
    def records(self) -> int:
        return len(self.values)


def varint(number: int) -> bytes:
    """Zigzag, 64 bits."""
    left = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = bytearray()
    while left > 0x7F:
        out.append(0x80 | (left & 0x7F))
        left >>= 7
    return bytes([*out, left])


def _sized(data: bytes | None, length: int | None) -> bytes:
    reported = (-1 if data is None else len(data)) if length is None else length
    return varint(reported) + (data or b"")


def record_bytes(sent: Sent, index: int) -> bytes:
    """A record of format 2."""
    delta = index if sent.offset_delta is None else sent.offset_delta
    count = len(sent.headers) if sent.header_count is None else sent.header_count
    body = b"".join(
        [
            bytes([sent.attributes]),
            varint(sent.timestamp_delta),
            varint(delta),
            _sized(sent.key, sent.key_length),
            _sized(sent.value, sent.value_length),
            varint(count),
            *(_sized(part, None) for header in sent.headers for part in header),
        ]
    )
    return varint(len(body) if sent.length is None else sent.length) + body


def packed(codec: Codec, payload: bytes) -> bytes:
    """Compressed as aiokafka's own producer would."""
    match codec:
        case Codec.NONE:
            return payload
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(payload))
        case Codec.SNAPPY:
            return bytes(snappy_encode(payload))
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            compressor.compress(payload)
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(payload))


def payload_of(draft: Draft) -> bytes:
    """The records of a batch, one behind the other."""
    if draft.payload is not None:
        return draft.payload
    records = b"".join(record_bytes(sent, index) for index, sent in enumerate(draft.records))
    return records * draft.repeated


def batch_bytes(draft: Draft, base_offset: int = 0) -> bytes:
    """The batch with its head; a broker sets the base offset itself."""
    body = packed(draft.codec, payload_of(draft)) + draft.behind
    count = len(draft.records) if draft.count is None else draft.count
    last = max(count - 1, -(2**31)) if draft.last_offset_delta is None else draft.last_offset_delta
    after_sum = struct.pack(
        ">hiqqqhii",
        draft.attributes | draft.codec,
        last,
        draft.first_timestamp,
        draft.max_timestamp,
        draft.producer_id,
        draft.producer_epoch,
        draft.base_sequence,
        count,
    )
    return framed(after_sum + body, base_offset, sum_is_right=draft.sum_is_right)


def framed(summed: bytes, base_offset: int = 0, *, sum_is_right: bool = True) -> bytes:
    """What the checksum covers, with what is before it."""
    crc = calc_crc32c(summed) ^ (0 if sum_is_right else 1)
    return struct.pack(">qiibI", base_offset, len(summed) + 9, -1, 2, crc) + summed


def batch_of(seed: int, values: Sequence[bytes | None], *, sound: bool = False) -> RawBatch:
    """A batch of these values; sound, or damaged in one way that the seed chooses."""
    chance = random.Random(seed)
    headers = [(b"trace", b"1")] * chance.randrange(3)
    records = [Sent(value, chance.choice([None, b"key"]), headers) for value in values]
    draft = Draft(records, chance.choice(list(Codec)))
    if sound:
        return RawBatch("sound", batch_bytes(draft), tuple(values), draft=draft)
    from tests.fuzz.damage import BYTES, DAMAGES  # noqa: PLC0415 - it builds on this module

    name = chance.choice([*DAMAGES, *BYTES])
    if name in DAMAGES:
        draft = DAMAGES[name](draft, chance)
        data = batch_bytes(draft)
    else:
        payload = BYTES[name](payload_of(draft), chance)
        inside = chance.random() < 0.5 or draft.codec is Codec.NONE
        if inside:
            draft = replace(draft, payload=payload)
            data = batch_bytes(draft)
        else:
            whole = batch_bytes(draft)
            data = framed(whole[21:61] + BYTES[name](whole[61:], chance))
        name = f"{name} {'inside' if inside else 'outside'}"
    kind = f"{draft.codec.name.lower()}: {name}"
    return RawBatch(kind, data, tuple(values), draft=draft)
