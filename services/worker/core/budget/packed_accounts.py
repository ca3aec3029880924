"""Accounts without an open request, packed: about sixty bytes each beside their ids."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from answerbus.budget import Budget
from services.worker.core.budget.account import Account

ROWS_PER_BUCKET = 16  # on average; a lookup goes through half of them
_SIZE_BYTES, _MS_BYTES = 3, 6  # before the fields: the size of the row, and when it changed
_HEAD_BYTES = _SIZE_BYTES + _MS_BYTES
_INT_MAX = 2**63 - 1  # of a number in MessagePack; a greater one is a text
_ARRAY = b"\x9b"  # with which eleven fields begin in MessagePack; the id is the first
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class _Row(NamedTuple):
    id: str
    workflow_id: str | None  # None: as the id
    attempts: int | str
    tokens: int | str
    micro_usd: int | str
    attempts_max: int
    tokens_max: int | str | None
    micro_usd_max: int | str | None
    last_hash: bytes | None
    microseconds: int  # of `updated_at`, below a millisecond
    shared_by: str | tuple[int, int] | None  # None: as the id


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Row)


class PackedAccounts:
    """A hash table of rows of bytes that grows by one bucket at a time (linear hashing).

    `hash` of a text has a key of this process: nobody outside can fill one bucket.
    """

    def __init__(self) -> None:
        self._buckets = [b""]
        self._half = 1  # the greatest power of two that is at most the number of buckets
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bucket_count(self) -> int:
        """How many there are to look through (see `old`)."""
        return len(self._buckets)

    def __iter__(self) -> Iterator[str]:
        for bucket in self._buckets:
            for at, size in _rows(bucket):
                yield _row(bucket, at, size).id

    def put(self, account: Account) -> None:
        """Add an account that is not here; it must have nothing open."""
        row = _packed(account)
        self._buckets[self._bucket_of(account.id)] += row
        self._count += 1
        if self._count > ROWS_PER_BUCKET * len(self._buckets):
            self._split()

    def take(self, account_id: str) -> Account | None:
        """Remove the account, and give it as it was put."""
        number = self._bucket_of(account_id)
        bucket = self._buckets[number]
        start = _ARRAY + _ENCODER.encode(account_id)
        if start not in bucket:
            return None  # soon known of most: each account that is new is looked for
        for at, size in _rows(bucket):
            if bucket.startswith(start, at + _HEAD_BYTES):
                self._buckets[number] = bucket[:at] + bucket[at + size :]
                self._count -= 1
                return _unpacked(bucket, at, size)
        return None

    def old(self, number: int, before: datetime) -> list[str]:
        """The ids in one bucket whose account has not changed since `before`."""
        bucket, before_ms = self._buckets[number], (before - _EPOCH) // _MS
        rows = [(at, size) for at, size in _rows(bucket) if _ms(bucket, at) < before_ms]
        return [_row(bucket, at, size).id for at, size in rows]

    def _bucket_of(self, account_id: str) -> int:
        hashed = hash(account_id)
        number = hashed % (2 * self._half)
        return number if number < len(self._buckets) else number - self._half

    def _split(self) -> None:
        number = len(self._buckets) - self._half
        bucket = self._buckets[number]
        self._buckets.append(b"")
        kept: list[bytes] = []
        moved: list[bytes] = []
        for at, size in _rows(bucket):
            name = _row(bucket, at, size).id
            (kept if self._bucket_of(name) == number else moved).append(bucket[at : at + size])
        self._buckets[number], self._buckets[-1] = b"".join(kept), b"".join(moved)
        if len(self._buckets) == 2 * self._half:
            self._half *= 2


def _rows(bucket: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(bucket):
        size = int.from_bytes(bucket[at : at + _SIZE_BYTES])
        yield at, size
        at += size


def _packed(account: Account) -> bytes:
    since = account.updated_at - _EPOCH
    whole = (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000
    limit = account.limit
    attempts, tokens, micro_usd = map(_number, account.charged)
    fields = _ENCODER.encode(
        (
            account.id,
            None if account.workflow_id == account.id else account.workflow_id,
            attempts,
            tokens,
            micro_usd,
            limit.attempts,
            None if limit.tokens is None else _number(limit.tokens),
            None if limit.micro_usd is None else _number(limit.micro_usd),
            account.packed_hash,
            since.microseconds % 1_000,
            None if account.shared_by == account.id else account.shared_by,
        )
    )
    size = (_HEAD_BYTES + len(fields)).to_bytes(_SIZE_BYTES)
    return size + whole.to_bytes(_MS_BYTES) + fields


def _number(amount: int) -> int | str:
    return amount if amount <= _INT_MAX else str(amount)


def _unpacked(bucket: bytes, at: int, size: int) -> Account:
    row = _row(bucket, at, size)
    updated_at = _EPOCH + _ms(bucket, at) * _MS + timedelta(microseconds=row.microseconds)
    return Account(
        id=row.id,
        workflow_id=row.id if row.workflow_id is None else row.workflow_id,
        limit=Budget(
            attempts=row.attempts_max,
            tokens=None if row.tokens_max is None else int(row.tokens_max),
            micro_usd=None if row.micro_usd_max is None else int(row.micro_usd_max),
        ),
        updated_at=updated_at,
        charged=(int(row.attempts), int(row.tokens), int(row.micro_usd)),
        packed_hash=row.last_hash,
        shared_by=row.id if row.shared_by is None else row.shared_by,
    )


def _row(bucket: bytes, at: int, size: int) -> _Row:
    return _DECODER.decode(memoryview(bucket)[at + _HEAD_BYTES : at + size])


def _ms(bucket: bytes, at: int) -> int:
    return int.from_bytes(bucket[at + _SIZE_BYTES : at + _HEAD_BYTES])
