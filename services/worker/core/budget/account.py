"""An account: the subject of one budget, and its form in the ledger topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json

from answerbus.budget import AccountState, Budget, Spent
from answerbus.private.ledger import LEDGER_VERSION, AccountRecord
from answerbus.wire import format_timestamp

_K = TypeVar("_K")
_V = TypeVar("_V")

Charged = tuple[int, int, int]  # attempts, tokens, micro_usd
AppendPosition = tuple[int, int]  # of a record: its offset, its append time in milliseconds

NOTHING: Mapping[Any, Any] = MappingProxyType({})  # what most accounts have under way
NO_RUNS: frozenset[str] = frozenset()  # each of its own would take 216 bytes


def _nothing() -> Mapping[Any, Any]:
    return NOTHING


class Spend(NamedTuple):
    """One attempt, charged at its worst case until it is settled.

    `at` has milliseconds, as records have: a spend equals the one that is read back.
    """

    account_id: str
    request_id: str
    attempt: int
    tokens: int
    micro_usd: int
    at: datetime

    @property
    def worst(self) -> Charged:
        """The charge until it is settled."""
        return 1, self.tokens, self.micro_usd


SHARED_LIMITS_MAX = 1_024
DIGEST_PREFIX = "sha256:"


@dataclass(slots=True)
class Account:
    """An account, which budgets are charged to; a lane holds a hundred thousand, so it is small."""

    id: str
    workflow_id: str
    limit: Budget
    updated_at: datetime
    charged: Charged = (0, 0, 0)
    in_flight: Mapping[tuple[str, int], Spend] = field(default_factory=_nothing)  # by attempt
    open: Mapping[str, int] = field(default_factory=_nothing)  # attempts without a terminal
    uncounted: Mapping[str, int] = field(default_factory=_nothing)  # of those, by request
    packed_hash: bytes | None = None  # of the last attempt: as text it would take twice as much
    # The request that named its limit, or the last that added to it (see ledger.py).
    shared_by: str | AppendPosition = ""
    reserving: frozenset[str] = NO_RUNS  # runs among these that reserve a minimum (OpenChildren)
    tools_micro_usd: int = 0  # of what was charged: no attempt has said it yet (see audit.py)
    waiting: set[str] | None = None  # admitted, without an outcome; as the queue of the lane is

    @property
    def last_attempt_hash(self) -> str | None:
        """With which the next attempt goes on (see audit.py)."""
        return None if self.packed_hash is None else DIGEST_PREFIX + self.packed_hash.hex()

    @last_attempt_hash.setter
    def last_attempt_hash(self, digest: str) -> None:
        self.packed_hash = _packed(digest)

    @property
    def spent(self) -> Spent:
        return spent_of(self.charged)

    @property
    def reserved(self) -> Charged:
        """The sum charged, and the worst case of those in flight."""
        pending = self.in_flight.values()
        attempts, tokens, micro_usd = self.charged
        return (
            attempts + len(pending),
            tokens + sum(spend.tokens for spend in pending),
            micro_usd + sum(spend.micro_usd for spend in pending),
        )

    @property
    def micro_usd_left(self) -> int | None:
        """The amount that is neither charged nor reserved; None without a limit."""
        limit = self.limit.micro_usd
        return None if limit is None else max(limit - self.reserved[2], 0)

    @property
    def state(self) -> AccountState:
        """The account as events show it."""
        return AccountState(id=self.id, limit=self.limit, spent=self.spent)

    def admit(self, request_id: str) -> None:
        """A request of it waits: the account is kept until its outcome."""
        self.waiting = self.waiting or set()
        self.waiting.add(request_id)

    def put(self, spend: Spend) -> None:
        self.in_flight = {**self.in_flight, (spend.request_id, spend.attempt): spend}
        self.open = {**self.open, spend.request_id: spend.attempt}

    def take(self, spend: Spend) -> None:
        """A spend is settled. Raises KeyError for one that is not open: it would count twice."""
        key = spend.request_id, spend.attempt
        if key not in self.in_flight:
            raise KeyError(key)
        self.in_flight = _without(self.in_flight, key)

    def give_up(self, spend: Spend) -> None:
        """A spend that was taken does not count."""
        name = spend.request_id
        if name in self.open:
            self.uncounted = {**self.uncounted, name: self.uncounted.get(name, 0) + 1}

    def set_minimum(self, request_id: str, *, reserved: bool) -> None:
        """Note whether a run reserves a minimum for its next step."""
        if reserved != (request_id in self.reserving):
            self.reserving = self.reserving ^ {request_id} or NO_RUNS

    def end(self, request_id: str) -> None:
        """A request has had its outcome."""
        self.set_minimum(request_id, reserved=False)
        if self.waiting:
            self.waiting.discard(request_id)
        self.open = _without(self.open, request_id)
        if request_id in self.uncounted:
            self.uncounted = _without(self.uncounted, request_id)

    def in_flight_of(self, request_id: str) -> int:
        """How many spends of a request are not settled."""
        return sum(name == request_id for name, _ in self.in_flight)

    def counted_of(self, request_id: str) -> int:
        """How many settled attempts of an open request count."""
        made = self.open.get(request_id, 0) - self.uncounted.get(request_id, 0)
        return made - self.in_flight_of(request_id)

    def snapshot(self) -> "Account":
        """The account as it is now; each spend takes two, and `replace` as long as all the rest."""
        return Account(
            self.id,
            self.workflow_id,
            self.limit,
            self.updated_at,
            self.charged,
            self.in_flight,
            self.open,
            self.uncounted,
            self.packed_hash,
            self.shared_by,
            self.reserving,
            self.tools_micro_usd,
        )

    def json(self) -> bytes:
        """The account as the ledger topic keeps it: an AccountRecord.

        Written without making one, which takes four times as long: a workflow may have a thousand
        calls in flight, and each of its spends writes all of them.
        """
        attempts, tokens, micro_usd = self.charged
        shared: dict[str, object] = {}
        if isinstance(self.shared_by, tuple):
            shared["added_to"] = dict(zip(("offset", "at_ms"), self.shared_by, strict=True))
        elif self.shared_by:
            shared["settled_by"] = self.shared_by
        return to_json(
            {
                "kind": "account",
                "v": LEDGER_VERSION,
                "account_id": self.id,
                "workflow_id": self.workflow_id,
                "limit": self.limit,
                **shared,
                "spent": {"attempts": attempts, "tokens": tokens, "micro_usd": micro_usd},
                **({"tools_micro_usd": self.tools_micro_usd} if self.tools_micro_usd else {}),
                "in_flight": [
                    {
                        "request_id": spend.request_id,
                        "attempt": spend.attempt,
                        "tokens": spend.tokens,
                        "micro_usd": spend.micro_usd,
                        "at": format_timestamp(spend.at),
                    }
                    for spend in self.in_flight.values()
                ],
                "open": [self._open_request(i, n) for i, n in self.open.items()],
                "last_attempt_hash": self.last_attempt_hash,
                "updated_at": format_timestamp(self.updated_at),
            }
        )

    def _open_request(self, request_id: str, attempts: int) -> dict[str, str | int]:
        written: dict[str, str | int] = {"request_id": request_id, "attempts": attempts}
        if uncounted := self.uncounted.get(request_id):
            written["uncounted"] = uncounted
        if request_id in self.reserving:
            written["keeps_floor"] = True
        return written


def restored(record: AccountRecord) -> Account:
    """The account that a record of the ledger topic describes."""
    account_id, workflow_id = record.account_id, record.workflow_id
    spends = (
        Spend(account_id, found.request_id, found.attempt, found.tokens, found.micro_usd, found.at)
        for found in record.in_flight
    )
    return Account(
        id=account_id,
        workflow_id=account_id if workflow_id == account_id else workflow_id,  # one text, not two
        limit=shared(record.limit),
        charged=(record.spent.attempts, record.spent.tokens, record.spent.micro_usd),
        updated_at=record.updated_at,
        in_flight={(spend.request_id, spend.attempt): spend for spend in spends} or NOTHING,
        open={entry.request_id: entry.attempts for entry in record.open} or NOTHING,
        uncounted={one.request_id: one.uncounted for one in record.open if one.uncounted}
        or NOTHING,
        packed_hash=_packed(record.last_attempt_hash) if record.last_attempt_hash else None,
        shared_by=(record.added_to.offset, record.added_to.at_ms)
        if record.added_to
        else record.settled_by,
        reserving=frozenset(one.request_id for one in record.open if one.keeps_floor) or NO_RUNS,
        tools_micro_usd=record.tools_micro_usd,
    )


def _packed(digest: str) -> bytes:
    return bytes.fromhex(digest.removeprefix(DIGEST_PREFIX))


def plus(one: Charged, other: Charged) -> Charged:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def spent_of(charged: Charged) -> Spent:
    attempts, tokens, micro_usd = charged
    return Spent(attempts=attempts, tokens=tokens, micro_usd=micro_usd)


def _without(mapping: Mapping[_K, _V], key: _K) -> Mapping[_K, _V]:
    return {k: v for k, v in mapping.items() if k != key} or NOTHING


@lru_cache(SHARED_LIMITS_MAX)
def shared(limit: Budget) -> Budget:
    """Most workflows have one of a few limits."""
    return limit
