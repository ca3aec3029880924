"""From a summary to a row, with each text that many dead letters share kept once; pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from services.operators.dead_letters.row import DeadLetterRow, Dismissal, Funds, ReplayInfo
from services.operators.dead_letters.why import why_of
from services.operators.records.event_parts import BudgetSummary, SpentSummary
from services.operators.records.event_summary import (
    DeadLetterSummary,
    DismissedSummary,
    ReplayedSummary,
)
from services.operators.records.stored import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

SHARED_MAX = 100_000  # texts; beyond, each dead letter keeps its own


class RowBuilder:
    """Remembers what it has made, so that it is made once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._limits: dict[Funds, Funds] = {}

    def row(self, letter: DeadLetterSummary, place: Place) -> DeadLetterRow:
        """The dead letter at that place."""
        request, account, why = letter.request, letter.account, why_of(letter)
        return DeadLetterRow(
            id=letter.dead_letter_id,
            place=place,
            at_ms=milliseconds(letter.at),
            cause=self.interned(letter.cause.kind),
            failure=self._one_or_none(letter.failure),
            request_id=letter.request_id,
            workflow_id=self._one_or_none(letter.workflow_id),
            schema=self.interned(request.answer_schema.label) if request else None,
            profile=self.interned(request.profile) if request else None,
            labels=self._shared_labels(letter.labels),
            account_id=self._one_or_none(account.id if account else None),
            limit=self._shared_limit(request.budget) if request else None,
            spent=_spent(account.spent) if account else None,
            round=letter.round,
            why=self.interned(str(why)),
            problem=self._one_or_none(why.code),
            agent=self._one_or_none(request.agent.name if request and request.agent else None),
        )

    def replay(self, event: ReplayedSummary) -> ReplayInfo:
        """What is kept of a Replayed."""
        by, reason = self.interned(event.by), self.interned(event.reason)
        return ReplayInfo(event.request_id, event.round, by, reason, milliseconds(event.at))

    def dismissal(self, event: DismissedSummary) -> Dismissal:
        """What is kept of a Dismissed."""
        by, reason = self.interned(event.by), self.interned(event.reason)
        return Dismissal(by, reason, milliseconds(event.at))

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

    def _shared_limit(self, budget: BudgetSummary) -> Funds:
        limit = Funds(budget.attempts, budget.tokens, budget.micro_usd)
        if len(self._limits) < SHARED_MAX:
            return self._limits.setdefault(limit, limit)
        return self._limits.get(limit, limit)


def _spent(spent: SpentSummary) -> Funds:
    return Funds(spent.attempts, spent.tokens, spent.micro_usd)


def milliseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - _EPOCH) // _MILLISECOND
