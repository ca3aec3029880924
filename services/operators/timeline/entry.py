"""One entry of a workflow's timeline, in words for people; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import assert_never

from answerbus.attempt import Attempt
from answerbus.compared import Compared
from answerbus.dead_letter import DeadLetter, Dismissed, Replayed
from answerbus.envelope import Undecodable
from answerbus.event import happened_at
from answerbus.failure import Invalid, Malformed, Refused
from answerbus.nearly_spent import BudgetNearlySpent
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.ledger import (
    KEY_BYTES,
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LaneRecord,
    Skipped,
)
from answerbus.request import Request
from answerbus.run_event import RunEvent
from answerbus.schema_name import schema_name
from answerbus.tool_event import ToolEvent
from services.operators.explain import died_text, failure_text, problem_text, written_text
from services.operators.records.decoded import DecodedRecord
from services.operators.records.event_line import STYLES as OUTCOME_STYLES
from services.operators.records.event_line import (
    detail_of,
    model_text,
    next_text,
    result_text,
    retry_text,
)
from services.operators.records.stored import RecordPosition, RetryEnded
from services.operators.records.within_limits import amount
from services.text.escaping import plain, plain_line

DEAD_LETTER_SUFFIX = ".dead-letter"
STYLES: Mapping[str, str] = MappingProxyType(
    {
        **OUTCOME_STYLES,
        "request": "bold",
        "attempt": "cyan",
        "in_flight": "bold cyan",
        "step": "cyan",
        "tool_ended": "cyan",
        "approval_requested": "yellow",
        "control_applied": "magenta",
        "approval": "magenta",
        "cancel": "magenta",
    }
)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened, and the request (or the place of a record) that it is about.

    `said` are words of the model, for those who may see answers.
    """

    at: datetime
    kind: str
    request_id: str | None
    text: str
    seen: DecodedRecord
    said: str | None = None

    @property
    def place(self) -> RecordPosition:
        """The position of its record."""
        return RecordPosition(self.seen.topic, self.seen.partition, self.seen.offset)


def entry_of(
    record: DecodedRecord, kind: str | None = None, text: str | None = None
) -> TimelineEntry:
    """The text of one record, unless `text` is given."""
    event = record.event
    happened = None if isinstance(event, Undecodable | RetryEnded) else happened_at(event)
    return TimelineEntry(
        happened or record.at,
        kind or record.kind,
        _about(record),
        text or _text(record),
        record,
        _answer_text(record),
    )


def _about(record: DecodedRecord) -> str | None:
    """Operators' events are about the request that ended, not about the one that they make."""
    match record.event:
        case (Replayed() | Dismissed()) as event:
            return event.dead_letter_id.removesuffix(DEAD_LETTER_SUFFIX)
        case ClosedRecord() as event:
            return event.closes
        case _:
            return record.subject


def _text(record: DecodedRecord) -> str:  # noqa: C901, PLR0912 - one arm for each event
    match record.event:
        case Request() as event:
            return _asked(event)
        case Attempt() as event:
            return _attempt(event)
        case RetryRequest() as event:
            why = _failed(event)
            return f"to be tried again: {why}" if why else f"to be tried again: {retry_text(event)}"
        case Result() as event:
            return f"answered: {result_text(event)}"
        case UnvalidatedResult() as event:
            return f"published with {len(event.problems)} problems: {result_text(event)}"
        case Refusal() as event:
            of = "" if event.category is None else f" ({plain_line(event.category)})"
            return f"declined by the {event.by}{of}: {result_text(event)}"
        case DeadLetter() as event:
            return f"dead letter: {died_text(event)}"
        case Replayed() as event:
            edited = ", edited" if event.edit else ""
            who = f"by {event.by}: {event.reason}"
            return plain_line(f"replayed as {event.request_id} (round {event.round}{edited}) {who}")
        case Dismissed() as event:
            done = "dismissal undone" if event.undone else "dismissed"
            return plain_line(f"{done} by {event.by}: {event.reason}")
        case RetryEnded():
            return "taken off the list of retries"
        case ClosedRecord() as event:
            return f"closed in the ledger as {event.outcome}; later copies are dropped"
        case ClosedIdsRecord() as event:
            return f"{len(event.keys) // KEY_BYTES} closed ids, as chunk {event.chunk}"
        case AccountRecord() as event:
            return f"the account {plain_line(event.account_id)} has spent {event.spent.attempts}"
        case BudgetLeaseRecord() | BudgetShareRecord() as event:
            return f"lane {event.lane} and the budget {plain_line(event.budget)}"
        case LaneRecord() as event:
            return f"the lane is opened by {plain_line(event.worker)}"
        case Skipped() as event:
            message = f"the record at offset {event.offset} was skipped by {event.by}"
            return plain_line(f"{message}: {event.reason}")
        case Undecodable() as event:
            return "invalid record: " + "; ".join(map(problem_text, event.problems))
        case other if isinstance(other, BudgetNearlySpent | Compared | ToolEvent | RunEvent):
            return detail_of(record)
        case other:
            assert_never(other)


def _asked(request: Request) -> str:
    name = schema_name(request.answer_schema).label
    asked = f"asked for {name} on profile {plain_line(request.profile)}"
    if request.replay is None:
        return asked
    # Not `by`: who replayed is said by the Replayed event, since a request may say anything.
    dead_letter = plain_line(request.replay.dead_letter_id)
    return f"{asked}, round {request.replay.round} of {dead_letter}"


def _attempt(attempt: Attempt) -> str:
    name = f"attempt {attempt.attempt}"
    took_ms = attempt.duration_ms
    took = "" if took_ms is None else f" after {amount(took_ms) / 1000:.1f} s"
    failure = attempt.failure
    why = f": {_without_words(failure_text(failure), failure)}" if failure else ""
    match attempt.outcome:
        case "result" | "unvalidated_result" | "refusal" | "dead_letter" | "retry" | "step":
            model = "" if attempt.model is None else f" by {model_text(attempt.model)}"
            article = "an" if attempt.outcome == "unvalidated_result" else "a"
            outcome = f"{article} {attempt.outcome.replace('_', ' ')}"
            ended = f"{name}{model} ended in {outcome}{took}{why}"
        case "unknown":
            ended = f"{name} was lost with its worker, and is charged at its worst case"
        case "released":
            ended = f"{name} was given back{why}"
        case other:
            assert_never(other)
    return ended if attempt.counted else f"{ended}; not counted"


def _failed(retry: RetryRequest) -> str | None:
    """What `retry_text` would say, if it would quote the model."""
    if not isinstance(retry.failure, Refused):
        return None
    return f"{next_text(retry)}, declined"


def _without_words(text: str, failure: object) -> str:
    return "declined" if isinstance(failure, Refused) else text


def _answer_text(record: DecodedRecord) -> str | None:
    match record.event:
        case Refusal(reason=reason):
            return plain(reason)
        case Attempt(failure=Refused(reason=reason)) | RetryRequest(failure=Refused(reason=reason)):
            return plain(reason)
        case Attempt(failure=Malformed() | Invalid() as failure):
            return written_text(failure) or None
        case _:
            return None
