"""The accounts of a lane: as objects while something is open, else packed."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.worker.core.budget.account import Account
from services.worker.core.budget.packed_accounts import PackedAccounts

ACCOUNT_MEMORY = timedelta(days=7)  # by default, since the last event of an account
ACCOUNT_IDLE = timedelta(minutes=1)  # without an open request, before an account is packed
SWEEP_EVERY = timedelta(hours=1)  # each packed account is looked at once in that time
SWEEPS_MIN = 24  # while an account is remembered; where that is short, they come more often
PACKED_AT_ONCE = 2_000  # accounts, about 6 µs each
SWEPT_AT_ONCE = 1_000  # buckets of packed accounts, about 7 µs each


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
    """Whether a request of the account has not had its terminal."""
    return bool(account.in_flight or account.open)
