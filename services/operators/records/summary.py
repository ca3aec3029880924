"""A record in short: its position and subject, without its content; pure."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from msgspec import DecodeError, Struct

from answerbus.schema_name import SchemaName
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.event_summary import (
    EVENT_SUMMARY,
    AnswerSummary,
    BudgetLeaseSummary,
    BudgetNearlySpentSummary,
    BudgetShareSummary,
    ClosedIdsSummary,
    DeadLetterSummary,
    DismissedSummary,
    EventSummary,
    LaneRecordSummary,
    PrivateSummary,
    ReplayedSummary,
    RequestSummary,
    RetrySummary,
    SkippedSummary,
)
from services.operators.records.stored import RecordPosition, RetryEnded, Stored


@dataclass(frozen=True, slots=True)
class UndecodableRecord:
    """A record that is not an event of its topic."""

    kind: ClassVar[Literal["undecodable"]] = "undecodable"


UNDECODABLE = UndecodableRecord()


class RecordSummary(Struct, frozen=True, gc=False):
    """One record; `at_ms` is Kafka's time of it, since 1970."""

    place: RecordPosition
    at_ms: int
    event: EventSummary | RetryEnded | UndecodableRecord

    @property
    def kind(self) -> str:
        """The event's kind, or what stands in for one."""
        return self.event.kind

    @property
    def workflow_id(self) -> str | None:
        """The workflow, if the record says it."""
        match self.event:
            case LaneRecordSummary() | SkippedSummary():
                return None
            case BudgetLeaseSummary() | BudgetShareSummary() | BudgetNearlySpentSummary():
                return None
            case ClosedIdsSummary() | UndecodableRecord():
                return None
            case event:
                return event.workflow_id

    @property
    def request_id(self) -> str | None:
        """The request, if the record says it."""
        match self.event:
            case PrivateSummary():
                return None
            case DismissedSummary() | BudgetNearlySpentSummary() | UndecodableRecord():
                return None
            case event:
                return event.request_id

    @property
    def dead_letter_id(self) -> str | None:
        """The dead letter that was written, replayed or dismissed."""
        match self.event:
            case (DeadLetterSummary() | ReplayedSummary() | DismissedSummary()) as event:
                return event.dead_letter_id
            case _:
                return None

    @property
    def dead_letter(self) -> DeadLetterKey | None:
        """The same with its workflow, if the record says it."""
        if self.dead_letter_id is None:
            return None
        return DeadLetterKey(self.workflow_id or "", self.dead_letter_id)

    @property
    def schema_name(self) -> SchemaName | None:
        """The schema that was asked for, if the record says it."""
        match self.event:
            case (RequestSummary() | RetrySummary() | AnswerSummary() | DeadLetterSummary()) as one:
                return one.answer_schema
            case _:
                return None


def summarize(stored: Stored) -> RecordSummary:
    """The summary of a record; never raises."""
    return RecordSummary(stored.place, stored.at_ms, _event(stored))


def _utf_8(value: bytes) -> bytes | str:
    """Skipped parts must be UTF-8, too. Raises UnicodeDecodeError."""
    return value if value.isascii() else value.decode()


def _event(stored: Stored) -> EventSummary | RetryEnded | UndecodableRecord:
    if stored.value is None:
        return stored.retry_ended or UNDECODABLE
    try:
        event = EVENT_SUMMARY.decode(_utf_8(stored.value))
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return UNDECODABLE
    # Any record may claim to be a result.
    return event if event.kind in stored.topic.events else UNDECODABLE
