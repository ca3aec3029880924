"""An account: what one budget is charged to, and its form in the ledger topic."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from pydantic_core import to_json

from answerbus.budget import AccountState, Budget, Spent
from answerbus.ledger import LEDGER_VERSION, AccountRecord
from answerbus.wire import format_timestamp


@dataclass(frozen=True, slots=True)
class Spend:
    """One attempt, charged at its worst case until it is settled.

    `at` has milliseconds, as records have: a spend equals the one that is read back.
    """

    account_id: str
    request_id: str
    attempt: int
    tokens: int
    micro_usd: int
    at: datetime


SHARED_LIMITS_MAX = 1_024


@dataclass(slots=True)
class Account:
    """What one budget is charged to; a lane holds a hundred thousand, so it is kept small."""

    id: str
    workflow_id: str
    limit: Budget
    updated_at: datetime
    charged: tuple[int, int, int] = (0, 0, 0)  # attempts, tokens, micro_usd
    in_flight: dict[tuple[str, int], Spend] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)
    last_attempt_hash: str | None = None

    def __post_init__(self) -> None:
        self.limit = _shared(self.limit)

    @property
    def spent(self) -> Spent:
        """What was charged so far."""
        attempts, tokens, micro_usd = self.charged
        return Spent(attempts=attempts, tokens=tokens, micro_usd=micro_usd)

    @property
    def state(self) -> AccountState:
        """The account as events show it."""
        return AccountState(id=self.id, limit=self.limit, spent=self.spent)

    def snapshot(self) -> "Account":
        """The account as it is now."""
        return replace(self, in_flight=dict(self.in_flight), open=dict(self.open))

    def json(self) -> bytes:
        """The account as the ledger topic keeps it: an AccountRecord.

        Written without making one, which takes four times as long: a workflow may have a thousand
        calls in flight, and each of its spends writes all of them.
        """
        attempts, tokens, micro_usd = self.charged
        return to_json(
            {
                "kind": "account",
                "v": LEDGER_VERSION,
                "account_id": self.id,
                "workflow_id": self.workflow_id,
                "limit": self.limit,
                "spent": {"attempts": attempts, "tokens": tokens, "micro_usd": micro_usd},
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
                "open": [{"request_id": i, "attempts": n} for i, n in self.open.items()],
                "last_attempt_hash": self.last_attempt_hash,
                "updated_at": format_timestamp(self.updated_at),
            }
        )


def restored(record: AccountRecord) -> Account:
    """The account that a record of the ledger topic describes."""
    return Account(
        id=record.account_id,
        workflow_id=record.workflow_id,
        limit=record.limit,
        charged=(record.spent.attempts, record.spent.tokens, record.spent.micro_usd),
        updated_at=record.updated_at,
        in_flight={
            (entry.request_id, entry.attempt): Spend(
                record.account_id,
                entry.request_id,
                entry.attempt,
                entry.tokens,
                entry.micro_usd,
                entry.at,
            )
            for entry in record.in_flight
        },
        open={entry.request_id: entry.attempts for entry in record.open},
        last_attempt_hash=record.last_attempt_hash,
    )


@lru_cache(SHARED_LIMITS_MAX)
def _shared(limit: Budget) -> Budget:
    """Most workflows have one of a few limits."""
    return limit
