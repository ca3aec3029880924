"""The statements of ledger and outcomes about attempts, in compact form; pure."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from answerbus.account_id import belongs, replay_account, workflow_account
from answerbus.budget import Spent
from answerbus.fail_fast import JsonReader
from answerbus.private.ledger import AccountRecord, Skipped
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES
from services.operators.audit.findings import AuditFinding
from services.operators.audit.replay_links import ReplayLink, ReplayLinks
from services.operators.audit.step_verification import RunEnd
from services.operators.records.event_parts import ReplaySummary, SpentSummary
from services.operators.records.event_summary import (
    AnswerSummary,
    DeadLetterSummary,
    ReplayedSummary,
)
from services.operators.records.stored import RecordPosition, Stored
from services.operators.records.summary import summarize
from services.records.private_topics import RecordFault, private_event

_ACCOUNT, _SKIPPED = JsonReader.of(AccountRecord), JsonReader.of(Skipped)
_ACCOUNT_KEY = b"account:"
_SKIPPED_KEY = b"skipped:@"

_Terminal = AnswerSummary | DeadLetterSummary


@dataclass(frozen=True, slots=True)
class Balance:
    """An account as the ledger had it: `head` is its last attempt, calls are (request, number)."""

    place: RecordPosition
    head: str | None
    spent: Spent
    tools_micro_usd: int  # of it: the next attempt is to say it
    attempts_max: int
    in_flight: frozenset[tuple[str, int]]
    open: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A terminal event: from which attempt it came (a dead letter does not say), at what cost."""

    place: RecordPosition
    at_ms: int
    kind: str
    account_id: str | None
    attempt: int | None
    spent: SpentSummary | None


@dataclass(slots=True)
class ClaimedSpending:
    """The last record of each account, and the terminals that no attempt has answered for yet.

    `foreign` are accounts that those who used them had no right to, `unreadable` private records
    that no worker can read, and `passed_by` those of them that an operator has skipped.
    """

    workflow_id: str | None = None
    replays: ReplayLinks = field(default_factory=ReplayLinks)
    foreign: list[AuditFinding] = field(default_factory=list)
    unreadable: dict[RecordPosition, AuditFinding] = field(default_factory=dict)
    passed_by: dict[RecordPosition, Skipped] = field(default_factory=dict)
    terminals: dict[RequestKey, list[Ended]] = field(default_factory=lambda: defaultdict(list))
    runs: dict[RequestKey, RunEnd] = field(default_factory=dict)
    _accounts: dict[tuple[int, bytes], Stored] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """One record of any topic but requests and attempts."""
        if stored.topic in {LEDGER, RETRIES}:
            self._private(stored, stored.key or b"")
            return
        match summarize(stored).event:
            case ReplayedSummary() as event:
                self.replays.take(event)
            case (AnswerSummary() | DeadLetterSummary()) as event:
                if event.request_id and self.workflow_id in (None, event.workflow_id):
                    key = RequestKey(event.workflow_id or "", event.request_id)
                    self._judge_account(event, event.request_id, stored.place)
                    self.terminals[key].append(_ended(event, stored))
                    if run := event.run:
                        counts = (run.steps, run.tool_calls)
                        ended = RunEnd(stored.place, stored.at_ms, *counts)
                        self.runs.setdefault(key, ended)
            case _:
                pass

    def balances(self) -> dict[str, Balance]:
        """The accounts by their ids."""
        found: dict[str, Balance] = {}
        for stored in self._accounts.values():
            try:
                record = _ACCOUNT.validate_json(stored.value or b"")
            except ValidationError:
                continue
            if self.workflow_id in (None, record.workflow_id):
                found[record.account_id] = _balance(record, stored.place)
                if not belongs(record.account_id, record.workflow_id):
                    self.foreign.append(_foreign(record.account_id, stored.place, "its workflow's"))
        return found

    def _private(self, stored: Stored, key: bytes) -> None:
        if (found := _unreadable(stored, key)) is not None:
            self.unreadable[stored.place] = found
        if key.startswith(_SKIPPED_KEY):
            with suppress(ValidationError):
                skipped = _SKIPPED.validate_json(stored.value or b"")
                place = RecordPosition(stored.topic, stored.partition, skipped.offset)
                self.passed_by[place] = skipped
                self.unreadable.pop(place, None)
        elif key.startswith(_ACCOUNT_KEY) and stored.topic is LEDGER:
            self._accounts.pop((stored.partition, key), None)
            if stored.value is not None:  # null: it was moved to another partition
                self._accounts[stored.partition, key] = stored

    def _judge_account(self, event: _Terminal, request_id: str, place: RecordPosition) -> None:
        """Whether the request was charged to the account of its workflow, or of its dead letter."""
        account, workflow_id = event.account, event.workflow_id
        if account is None or workflow_id is None:
            return
        if isinstance(event, DeadLetterSummary) and event.round and event.request is None:
            return  # it was too large to hold its request, which says of what it is a replay
        if (replay := _replay_of(event)) is None:
            expected = workflow_account(workflow_id)
        else:
            expected = replay_account(workflow_id, replay.dead_letter_id)
            link = ReplayLink(workflow_id, replay.dead_letter_id, request_id)
            self.replays.claim(link, account.id, place)
        if account.id != expected:
            self.foreign.append(_foreign(account.id, place, f"{expected}, its own"))

    def answered(self, request: RequestKey, kind: str, attempt: int) -> Ended | None:
        """The terminal that this attempt became, which is then no longer waited for."""
        waiting = self.terminals.get(request, [])
        for ended in waiting:
            if ended.kind == kind and ended.attempt in (None, attempt):
                waiting.remove(ended)
                return ended
        return None

    def has_dead_letter(self, request: RequestKey) -> bool:
        """Whether the request ended as a dead letter, which needs no attempt."""
        return any(ended.attempt is None for ended in self.terminals.get(request, ()))


def _unreadable(stored: Stored, key: bytes) -> AuditFinding | None:
    """Why no worker can read a private record, as a finding; None where workers can."""
    if stored.fault is not None:
        why = stored.fault.expected
    elif stored.value is None:
        return None
    else:
        event = private_event(stored.topic, stored.value)
        if not isinstance(event, RecordFault):
            return None
        why = event.text
    name = key.removeprefix(_ACCOUNT_KEY).decode(errors="backslashreplace")
    account_id = name if key.startswith(_ACCOUNT_KEY) else None
    expected = f"a record that workers can read: {why}"
    return AuditFinding("unreadable", account_id, None, stored.place, expected)


def _foreign(account_id: str, place: RecordPosition, expected: str) -> AuditFinding:
    return AuditFinding("account", account_id, None, place, expected)


def _ended(event: _Terminal, stored: Stored) -> Ended:
    attempt = event.attempt if isinstance(event, AnswerSummary) else None
    account_id, spent = (event.account.id, event.account.spent) if event.account else (None, None)
    return Ended(stored.place, stored.at_ms, event.kind, account_id, attempt, spent)


def _replay_of(event: _Terminal) -> ReplaySummary | None:
    if isinstance(event, AnswerSummary):
        return event.replay
    return event.request.replay if event.request else None


def _balance(record: AccountRecord, place: RecordPosition) -> Balance:
    return Balance(
        place,
        record.last_attempt_hash,
        record.spent,
        record.tools_micro_usd,
        record.limit.attempts,
        frozenset((spend.request_id, spend.attempt) for spend in record.in_flight),
        tuple((entry.request_id, entry.attempts) for entry in record.open),
    )
