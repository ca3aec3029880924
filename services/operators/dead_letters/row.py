"""One dead letter in an operator's list, small enough for 100,000 of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from answerbus.broker_time import milliseconds
from answerbus.trace import Trace
from services.operators.dead_letters.why import why_of
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.event_parts import BudgetSummary, SpentSummary
from services.operators.records.event_summary import (
    DeadLetterSummary,
    DismissedSummary,
    ReplayedSummary,
)
from services.operators.records.stored import RecordPosition

Status = Literal["open", "replayed", "dismissed"]
STATUSES: tuple[Status, ...] = ("open", "replayed", "dismissed")

DISMISSALS_MAX = 20  # of one dead letter: the newest
SHARED_MAX = 100_000  # texts; beyond, each dead letter keeps its own


@dataclass(frozen=True, slots=True)
class BudgetAmounts:
    """Amounts that an account may spend, or has spent; None: no limit."""

    attempts: int
    tokens: int | None
    micro_usd: int | None


NOTHING = BudgetAmounts(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """The dead letter was replayed, as `request_id`; `at_ms` is milliseconds since 1970.

    `workflow_id` is that of the new request; older records do not name it. `written_ms` is Kafka's
    time of the record.
    """

    request_id: str
    round: int
    by: str
    reason: str
    at_ms: int
    workflow_id: str | None = None
    written_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Dismissal:
    """The dead letter was dismissed, or that was undone; `at_ms` is milliseconds since 1970.

    `offset` is its position: the newest counts.
    """

    by: str
    reason: str
    at_ms: int
    offset: int = field(default=0, compare=False)
    undone: bool = False


@dataclass(slots=True, eq=False)
class DeadLetterRow:
    """One dead letter without its bodies, which are at `place`.

    `failure` is that of its last attempt; `why` and its code `problem` are those of why.py. `at_ms`
    is in milliseconds since 1970, `model` who was asked last (known once its attempts were read),
    `cost` what its own attempts cost (likewise), `spent` what the account had spent by then.
    `profile`, `schema` and `limit` are None where it holds no request. `trace` is the one
    it ended (known once its body was read), `agent` who worked on it, if it was a run.
    """

    id: str
    place: RecordPosition
    at_ms: int
    cause: str
    failure: str | None
    request_id: str | None
    workflow_id: str | None
    schema: str | None
    profile: str | None
    labels: tuple[tuple[str, str], ...]
    account_id: str | None
    limit: BudgetAmounts | None
    spent: BudgetAmounts | None
    round: int
    why: str = ""
    problem: str | None = None
    model: str | None = None
    cost: BudgetAmounts | None = None
    trace: Trace | None = None
    replay: ReplayInfo | None = None
    dismissals: tuple[Dismissal, ...] = ()
    agent: str | None = None

    @property
    def key(self) -> DeadLetterKey:
        named = self.workflow_id if self.is_of_request else None
        return DeadLetterKey(named or "", self.id)

    @property
    def dismissal(self) -> Dismissal | None:
        """The one that counts, unless it was undone."""
        newest = self.dismissals[-1] if self.dismissals else None
        return None if newest is None or newest.undone else newest

    @property
    def status(self) -> Status:
        """The action of operators; one that was dismissed and replayed is replayed."""
        if self.replay:
            return "replayed"
        return "dismissed" if self.dismissal else "open"

    @property
    def is_of_request(self) -> bool:
        """Whether a request ended so, also one that was too large for the dead letter to hold."""
        return self.has_request or self.account_id is not None

    @property
    def has_request(self) -> bool:
        """Whether there is a request to replay; else its bytes are to be repaired."""
        return self.schema is not None


class RowBuilder:
    """Remembers what it has made, so that it is made once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._limits: dict[BudgetAmounts, BudgetAmounts] = {}

    def row(self, dead_letter: DeadLetterSummary, place: RecordPosition) -> DeadLetterRow:
        """The dead letter at that place."""
        request, account, why = dead_letter.request, dead_letter.account, why_of(dead_letter)
        return DeadLetterRow(
            id=dead_letter.dead_letter_id,
            place=place,
            at_ms=milliseconds(dead_letter.at),
            cause=self.interned(dead_letter.cause.kind),
            failure=self._one_or_none(dead_letter.failure),
            request_id=dead_letter.request_id,
            workflow_id=self._one_or_none(dead_letter.workflow_id),
            schema=self.interned(request.answer_schema.label) if request else None,
            profile=self.interned(request.profile) if request else None,
            labels=self._shared_labels(dead_letter.labels),
            account_id=self._one_or_none(account.id if account else None),
            limit=self._shared_limit(request.budget) if request else None,
            spent=_spent(account.spent) if account else None,
            round=dead_letter.round,
            why=self.interned(str(why)),
            problem=self._one_or_none(why.code),
            agent=self._one_or_none(request.agent.name if request and request.agent else None),
        )

    def replay(self, event: ReplayedSummary, written_ms: int) -> ReplayInfo:
        """The parts of a Replayed that are kept."""
        by, reason = self.interned(event.by), self.interned(event.reason)
        at_ms, workflow_id = milliseconds(event.at), self._one_or_none(event.workflow_id)
        request_id, round_ = event.request_id, event.round
        return ReplayInfo(request_id, round_, by, reason, at_ms, workflow_id, written_ms)

    def dismissal(self, event: DismissedSummary, offset: int) -> Dismissal:
        """The parts of a Dismissed that are kept."""
        by, reason = self.interned(event.by), self.interned(event.reason)
        return Dismissal(by, reason, milliseconds(event.at), offset, event.undone)

    def interned(self, text: str) -> str:
        """The same text, kept once."""
        known = self._texts.get(text)
        if known is None and len(self._texts) < SHARED_MAX:
            self._texts[text] = text
        return known or text

    def _one_or_none(self, text: str | None) -> str | None:
        return None if text is None else self.interned(text)

    def _shared_labels(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        pairs = tuple((self.interned(name), self.interned(text)) for name, text in labels.items())
        if len(self._labels) < SHARED_MAX:
            return self._labels.setdefault(pairs, pairs)
        return self._labels.get(pairs, pairs)

    def _shared_limit(self, budget: BudgetSummary) -> BudgetAmounts:
        limit = BudgetAmounts(budget.attempts, budget.tokens, budget.micro_usd)
        if len(self._limits) < SHARED_MAX:
            return self._limits.setdefault(limit, limit)
        return self._limits.get(limit, limit)


def with_dismissal(known: tuple[Dismissal, ...], new: Dismissal) -> tuple[Dismissal, ...]:
    """In the order of their records, each once."""
    by_offset = {one.offset: one for one in (*known, new)}
    return tuple(by_offset[offset] for offset in sorted(by_offset))[-DISMISSALS_MAX:]


def _spent(spent: SpentSummary) -> BudgetAmounts:
    return BudgetAmounts(spent.attempts, spent.tokens, spent.micro_usd)
