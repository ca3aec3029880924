"""What ledger and terminal events say of attempts, kept small until the attempts are read; pure."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from answerbus.account_id import belongs, replay_account, workflow_account
from answerbus.budget import AccountState, Spent
from answerbus.dead_letter import Replayed
from answerbus.private.ledger import AccountRecord, Skipped
from answerbus.topics import DEAD_LETTERS, LEDGER, RETRIES, TOPIC_OF_KIND, Topic
from answerbus.wire import Wire
from services.operators.audit.findings import AuditFinding
from services.operators.audit.replay_links import ReplayLinks
from services.operators.records.stored import Place, Stored

_ACCOUNT_KEY = b"account:"
_SKIPPED_KEY = b"skipped:@"


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


class _DeadLetterId(Wire):
    """The dead letter that a request replays."""

    dead_letter_id: str


class _Asked(Wire):
    """The request in a dead letter."""

    replay: _DeadLetterId | None = None


class _Terminal(Wire):
    """The few fields that matter here; the rest of an event may be large, and is not made."""

    kind: str
    request_id: str | None = None
    workflow_id: str | None = None
    attempt: int | None = None
    account: AccountState | None = None
    replay: _DeadLetterId | None = None
    request: _Asked | None = None

    @property
    def letter_id(self) -> str | None:
        """The dead letter that the request replays, if it says so."""
        replay = self.request.replay if self.request else self.replay
        return replay.dead_letter_id if replay else None


@dataclass(slots=True)
class ClaimedSpending:
    """The last record of each account, and the terminals that no attempt has answered for yet.

    `foreign` are accounts that those who used them had no right to, `passed_by` private records
    that no worker can read.
    """

    workflow_id: str | None = None
    replays: ReplayLinks = field(default_factory=ReplayLinks)
    foreign: list[AuditFinding] = field(default_factory=list)
    passed_by: dict[Place, Skipped] = field(default_factory=dict)
    terminals: dict[str, list[Ended]] = field(default_factory=lambda: defaultdict(list))
    unreadable: int = 0
    _accounts: dict[tuple[int, bytes], Stored] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """One record of any topic but requests and attempts."""
        if stored.topic in {LEDGER, RETRIES}:
            self._private(stored, stored.key or b"")
            return
        try:
            said = _Terminal.model_validate_json(stored.value or b"")
        except ValidationError:
            self.unreadable += 1
            return
        if said.kind == "replayed" and stored.topic is DEAD_LETTERS:
            self._replayed(stored)
        if said.request_id is None or not _is_terminal(said.kind, stored.topic):
            return
        if self.workflow_id in (None, said.workflow_id):
            account = said.account
            self._judge_account(said, stored.place)
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
                if not belongs(record.account_id, record.workflow_id):
                    self.foreign.append(_foreign(record.account_id, stored.place, "its workflow's"))
        return found

    def _private(self, stored: Stored, key: bytes) -> None:
        if key.startswith(_SKIPPED_KEY):
            with suppress(ValidationError):
                skipped = Skipped.model_validate_json(stored.value or b"")
                self.passed_by[replace(stored.place, offset=skipped.offset)] = skipped
        elif key.startswith(_ACCOUNT_KEY) and stored.topic is LEDGER:
            self._accounts.pop((stored.partition, key), None)
            if stored.value is not None:  # null: it was moved to another partition
                self._accounts[stored.partition, key] = stored

    def _replayed(self, stored: Stored) -> None:
        try:
            self.replays.take(Replayed.model_validate_json(stored.value or b""))
        except ValidationError:
            self.unreadable += 1

    def _judge_account(self, said: _Terminal, place: Place) -> None:
        """Whether the request was charged to the account of its workflow, or of its dead letter."""
        if said.account is None or said.workflow_id is None or said.request_id is None:
            return
        if said.letter_id is None:
            expected = workflow_account(said.workflow_id)
        else:
            expected = replay_account(said.workflow_id, said.letter_id)
            self.replays.claim(said.letter_id, said.request_id, said.account.id, place)
        if said.account.id != expected:
            self.foreign.append(_foreign(said.account.id, place, f"{expected}, its own"))

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


def _foreign(account_id: str, place: Place, expected: str) -> AuditFinding:
    return AuditFinding("account", account_id, None, place, expected)


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
