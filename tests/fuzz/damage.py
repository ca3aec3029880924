"""Ways to damage a batch: by what its parts say, and byte by byte."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.fuzz.batches import BOMB_BYTES, HEADERS_MANY, RECORDS_MANY, Codec, Draft, Sent

Chance = random.Random
HUGE = (2**31 - 1, 2**31, 2**62, 2**63 - 1)
NEGATIVE = (-1, -2, -(2**31), -(2**63))


def _one(draft: Draft, chance: Chance, **changes: Any) -> Draft:
    """One record of it changed."""
    records = list(draft.records)
    at = chance.randrange(len(records))
    records[at] = replace(records[at], **changes)
    return replace(draft, records=records)


def _header_name(draft: Draft, chance: Chance) -> Draft:
    name = chance.choice([b"\xff", b"\x80abc", b"\xed\xa0\x80", b"\xc0\x80", b"a\x90\xa0b"])
    return _one(draft, chance, headers=[(b"a", b"1"), (name, b"2")])


def _header_null(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, headers=[(None, b"2")])


def _header_count(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, header_count=chance.choice([*NEGATIVE, *HUGE, 1, 7]))


def _many_headers(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, headers=[(b"", b"")] * HEADERS_MANY)


def _record_length(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, length=chance.choice([*NEGATIVE, *HUGE, 0, 1, 7, 100_000]))


def _key_length(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, key=b"k", key_length=chance.choice([*NEGATIVE, *HUGE, 3, 100_000]))


def _value_length(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, value_length=chance.choice([*NEGATIVE, *HUGE, 3, 100_000]))


def _huge_key(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, key=b"k" * chance.choice([10_000, 400_000]))


def _offset(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, offset_delta=chance.choice([*NEGATIVE, *HUGE, 0, 1, 5, 1000]))


def _timestamp(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, timestamp_delta=chance.choice([*NEGATIVE, *HUGE]))


def _timestamps(draft: Draft, chance: Chance) -> Draft:
    at = chance.choice([*NEGATIVE, *HUGE, 9_400_000_000_000_000])
    return replace(draft, first_timestamp=at, max_timestamp=at)


def _record_attributes(draft: Draft, chance: Chance) -> Draft:
    return _one(draft, chance, attributes=chance.choice([1, 0x7F, 0x80, 0xFF]))


def _attributes(draft: Draft, chance: Chance) -> Draft:
    return replace(draft, attributes=1 << chance.choice([3, 4, 5, 6, 7, 14]))


def _codec(draft: Draft, chance: Chance) -> Draft:
    """Bits that say another codec than the bytes have."""
    return replace(draft, attributes=chance.choice([1, 2, 3, 4, 5, 6, 7]))


def _last_offset(draft: Draft, chance: Chance) -> Draft:
    return replace(draft, last_offset_delta=chance.choice([-1, -(2**31), 2**31 - 1, 0, 5, 1000]))


def _count(draft: Draft, chance: Chance) -> Draft:
    return replace(draft, count=chance.choice([-1, -(2**31), 2**31 - 1, 0, 1, 5, 1000]))


def _producer(draft: Draft, chance: Chance) -> Draft:
    return replace(
        draft,
        producer_id=chance.choice([0, 7, 2**62]),
        producer_epoch=chance.choice([-1, 0, 5]),
        base_sequence=chance.choice([-1, 0, 2**31 - 1]),
        attributes=chance.choice([0, 0x10]),
    )


def _behind(draft: Draft, chance: Chance) -> Draft:
    junk = chance.choice([b"\0", b"\0" * 40, b"junk", chance.randbytes(chance.randrange(1, 200))])
    return replace(draft, behind=junk)


def _compressed(draft: Draft, chance: Chance) -> Draft:
    codec = draft.codec or chance.choice([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    return replace(draft, codec=codec)


def _bomb(draft: Draft, chance: Chance) -> Draft:
    """One record of zeros, which unpacks to far more than memory should hold."""
    codec = chance.choice([Codec.GZIP, Codec.ZSTD])  # the others reach 1:255 and 1:20
    return replace(draft, codec=codec, records=[Sent(bytes(BOMB_BYTES))])


def _many_records(draft: Draft, chance: Chance) -> Draft:
    return replace(_compressed(draft, chance), records=[Sent(None)] * RECORDS_MANY)


def _sum(draft: Draft, chance: Chance) -> Draft:
    return replace(draft, sum_is_right=False)


DAMAGES: Mapping[str, Callable[[Draft, Chance], Draft]] = {
    "header name": _header_name,
    "null header name": _header_null,
    "header count": _header_count,
    "many headers": _many_headers,
    "record length": _record_length,
    "key length": _key_length,
    "value length": _value_length,
    "huge key": _huge_key,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestamps": _timestamps,
    "record attributes": _record_attributes,
    "attributes": _attributes,
    "codec": _codec,
    "last offset": _last_offset,
    "count": _count,
    "producer": _producer,
    "behind": _behind,
    "sum": _sum,
}
HEAVY: Mapping[str, Callable[[Draft, Chance], Draft]] = {
    "bomb": _bomb,
    "many records": _many_records,
}


def _flip(data: bytes, chance: Chance) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(data) + 1)
    junk = chance.choice([b"\xff" * 10, b"\x80" * 12, b"\0" * 8, chance.randbytes(8)])
    return data[:at] + junk + data[at + len(junk) :]


def _insert(data: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.randrange(1, 30)) + data[at:]


def _delete(data: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.randrange(1, 30) :]


def _cut(data: bytes, chance: Chance) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _twice(data: bytes, chance: Chance) -> bytes:
    return data + data


BYTES: Mapping[str, Callable[[bytes, Chance], bytes]] = {
    "flip": _flip,
    "overwrite": _overwrite,
    "insert": _insert,
    "delete": _delete,
    "cut": _cut,
    "twice": _twice,
}
