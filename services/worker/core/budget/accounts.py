"""The accounts of a lane: as objects while something is open, else packed."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from answerbus.budget import Budget
from services.worker.core.budget.account import Account, shared

ACCOUNT_MEMORY = timedelta(days=7)  # by default, since the last event of an account
ACCOUNT_IDLE = timedelta(minutes=1)  # without an open request, before an account is packed
SWEEP_EVERY = timedelta(hours=1)  # each packed account is looked at once in that time
SWEEPS_MIN = 24  # while an account is remembered; where that is short, they come more often
PACKED_AT_ONCE = 2_000  # accounts, about 6 µs each
SWEPT_AT_ONCE = 1_000  # buckets of packed accounts, about 7 µs each
ROWS_PER_BUCKET = 16  # on average; a lookup goes through half of them
_SIZE_BYTES, _MS_BYTES = 3, 7  # before the fields: the size of the row, and when it changed
_HEAD_BYTES = _SIZE_BYTES + _MS_BYTES
_INT_MAX = 2**63 - 1  # of a number in MessagePack; a greater one is a text
_ARRAY = b"\x9c"  # with which twelve fields begin in MessagePack; the id is the first
_EPOCH = datetime.min.replace(tzinfo=UTC)  # no time is before it
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
    tools_micro_usd: int | str


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Row)


class PackedAccounts:
    """A hash table of rows of bytes that grows by one bucket at a time (linear hashing).

    `hash` of a text has a key of this process: no publisher can fill one bucket.
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
            _number(account.tools_micro_usd),
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
        limit=shared(
            Budget(
                attempts=row.attempts_max,
                tokens=None if row.tokens_max is None else int(row.tokens_max),
                micro_usd=None if row.micro_usd_max is None else int(row.micro_usd_max),
            )
        ),
        updated_at=updated_at,
        charged=(int(row.attempts), int(row.tokens), int(row.micro_usd)),
        packed_hash=row.last_hash,
        shared_by=row.id if row.shared_by is None else row.shared_by,
        tools_micro_usd=int(row.tools_micro_usd),
    )


def _row(bucket: bytes, at: int, size: int) -> _Row:
    return _DECODER.decode(memoryview(bucket)[at + _HEAD_BYTES : at + size])


def _ms(bucket: bytes, at: int) -> int:
    return int.from_bytes(bucket[at + _SIZE_BYTES : at + _HEAD_BYTES])


@dataclass(frozen=True, slots=True)
class AccountMemory:
    """How long an account is remembered after its last event, and how long before it is packed."""

    remember: timedelta = ACCOUNT_MEMORY
    idle: timedelta = ACCOUNT_IDLE


@dataclass(slots=True, eq=False)
class Accounts(Mapping[str, Account]):
    """By id. Whoever gets an account may change it at once; later they have to get it again."""

    memory: AccountMemory = field(default_factory=AccountMemory)
    _live: dict[str, Account] = field(default_factory=dict)
    _packed: PackedAccounts = field(default_factory=PackedAccounts)
    _resting: deque[tuple[datetime, str]] = field(default_factory=deque)
    _swept_at: datetime | None = None
    _next_bucket: int = 0

    def __getitem__(self, account_id: str) -> Account:
        found = self._live.get(account_id)
        if found is None:
            found = self._packed.take(account_id)
            if found is None:
                raise KeyError(account_id)
            self.put(found, found.updated_at)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from [*self._live, *self._packed]

    def __len__(self) -> int:
        return len(self._live) + len(self._packed)

    def live(self) -> Iterator[Account]:
        """All that have something open, and maybe others."""
        return iter(self._live.values())

    def put(self, account: Account, now: datetime) -> None:
        """Add an account, or one in the place of another."""
        self._packed.take(account.id)
        self._live[account.id] = account
        self.rest(account, now)

    def restore(self, account: Account) -> None:
        """Add an account as the ledger topic has it: packed at once, if nothing of it is open."""
        if is_open(account):
            self.put(account, account.updated_at)
            return
        self.discard(account.id)
        self._packed.put(account)

    def discard(self, account_id: str) -> None:
        """Forget an account, if there is one."""
        if self._live.pop(account_id, None) is None:
            self._packed.take(account_id)

    def rest(self, account: Account, now: datetime) -> None:
        """Pack the account after a while, if it has nothing open now, nor then."""
        if not is_open(account):
            self._resting.append((now, account.id))

    def pack(self, now: datetime) -> None:
        """Pack accounts that have rested for long enough, as many as may be at once."""
        for _ in range(min(PACKED_AT_ONCE, len(self._resting))):
            since, account_id = self._resting[0]
            if now - since < self.memory.idle:
                return
            self._resting.popleft()
            account = self._live.get(account_id)
            if account is not None and not is_open(account):
                del self._live[account_id]
                self._packed.put(account)

    def forget(self, now: datetime) -> list[str]:
        """Forget packed accounts that are too old, as far as they are looked through by now."""
        every = min(SWEEP_EVERY, self.memory.remember / SWEEPS_MIN)
        last, count = self._swept_at or now - every, self._packed.bucket_count
        buckets = min(int((now - last) / every * count), count, SWEPT_AT_ONCE)
        if buckets < 1:
            return []
        self._swept_at = max(last + buckets / count * every, now - every)
        found: list[str] = []
        for _ in range(buckets):
            self._next_bucket = (self._next_bucket + 1) % count
            found += self._packed.old(self._next_bucket, now - self.memory.remember)
        for account_id in found:
            self._packed.take(account_id)
        return found

    def is_old(self, account: Account, now: datetime) -> bool:
        """Whether an account is forgotten, though its record may still be there."""
        return not is_open(account) and now - account.updated_at > self.memory.remember


def is_open(account: Account) -> bool:
    """Whether a request of the account has not had its outcome."""
    return bool(account.in_flight or account.open or account.waiting)
