"""What ledger and terminal events say of attempts, kept small until the attempts are read; pure."""

from collections import defaultdict
from dataclasses import dataclass, field

from pydantic import ValidationError

from answerbus.budget import AccountState, Spent
from answerbus.ledger import AccountRecord
from answerbus.topics import LEDGER, TOPIC_OF_KIND, Topic
from answerbus.wire import Wire
from services.reading.stored import Place, Stored

_ACCOUNT_KEY = b"account:"


@dataclass(frozen=True, slots=True)
class Balance:
    """An account as the ledger had it: `head` is its last attempt, calls are (request, number)."""

    place: Place
    head: str | None
    spent: Spent
    attempts_max: int
    in_flight: frozenset[tuple[str, int]]
    open: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A terminal event: from which attempt it came (a dead letter does not say), at what cost."""

    place: Place
    at_ms: int
    kind: str
    account_id: str | None
    attempt: int | None
    spent: Spent | None


class _Terminal(Wire):
    """The few fields that matter here; the rest of an event may be large, and is not made."""

    kind: str
    request_id: str | None = None
    workflow_id: str | None = None
    attempt: int | None = None
    account: AccountState | None = None


@dataclass(slots=True)
class Claims:
    """The last record of each account, and the terminals that no attempt has answered for yet."""

    workflow_id: str | None = None
    terminals: dict[str, list[Ended]] = field(default_factory=lambda: defaultdict(list))
    unreadable: int = 0
    _accounts: dict[bytes, Stored] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """One record of the ledger, the results, the refusals or the dead letters."""
        if stored.topic is LEDGER:
            if stored.key is not None and stored.key.startswith(_ACCOUNT_KEY):
                self._accounts[stored.key] = stored
            return
        try:
            said = _Terminal.model_validate_json(stored.value or b"")
        except ValidationError:
            self.unreadable += 1
            return
        if said.request_id is None or not _is_terminal(said.kind, stored.topic):
            return
        if self.workflow_id in (None, said.workflow_id):
            account = said.account
            ended = Ended(
                stored.place,
                stored.at_ms,
                said.kind,
                account.id if account else None,
                said.attempt,
                account.spent if account else None,
            )
            self.terminals[said.request_id].append(ended)

    def balances(self) -> dict[str, Balance]:
        """The accounts by their ids."""
        found: dict[str, Balance] = {}
        for stored in self._accounts.values():
            try:
                record = AccountRecord.model_validate_json(stored.value or b"")
            except ValidationError:
                self.unreadable += 1
                continue
            if self.workflow_id in (None, record.workflow_id):
                found[record.account_id] = _balance(record, stored.place)
        return found

    def answered(self, request_id: str, kind: str, attempt: int) -> Ended | None:
        """The terminal that this attempt became, which is then no longer waited for."""
        waiting = self.terminals.get(request_id, [])
        for ended in waiting:
            if ended.kind == kind and ended.attempt in (None, attempt):
                waiting.remove(ended)
                return ended
        return None

    def has_letter(self, request_id: str) -> bool:
        """Whether the request ended as a dead letter, which needs no attempt."""
        return any(ended.attempt is None for ended in self.terminals.get(request_id, ()))


def _is_terminal(kind: str, topic: Topic) -> bool:
    return TOPIC_OF_KIND.get(kind) is topic and kind not in {"replayed", "dismissed"}


def _balance(record: AccountRecord, place: Place) -> Balance:
    return Balance(
        place,
        record.last_attempt_hash,
        record.spent,
        record.limit.attempts,
        frozenset((spend.request_id, spend.attempt) for spend in record.in_flight),
        tuple((entry.request_id, entry.attempts) for entry in record.open),
    )
