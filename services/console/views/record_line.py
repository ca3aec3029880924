"""One line of the tail about a record, without its content; pure."""

from collections.abc import Iterator
from typing import assert_never

from answerbus.schema_name import SchemaName
from services.console.views.units import duration
from services.operators.records.event_parts import FailureSummary, ModelSummary
from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    BudgetNearlySpentSummary,
    DeadLetterSummary,
    DismissedSummary,
    PrivateSummary,
    ReplayedSummary,
    RequestSummary,
    RetrySummary,
)
from services.operators.records.run_summary import (
    AnyRunSummary,
    ApprovalRequestedSummary,
    ApprovalSummary,
    CancelSummary,
    ControlAppliedSummary,
    InputRequestedSummary,
    InputSummary,
    RunEventSummary,
    StepSummary,
    ToolEndedSummary,
)
from services.operators.records.stored import RetryEnded
from services.operators.records.summary import RecordSummary, UndecodableRecord
from services.operators.records.within_limits import amount
from services.text.counted import count_text


def what_of(record: RecordSummary) -> str:
    """Schema, profile, model, how it went, and why, as far as the record says it."""
    return ", ".join(dict.fromkeys(_parts(record)))  # outcome and failure may be called the same


def _parts(record: RecordSummary) -> Iterator[str]:  # noqa: C901 - one arm for each event
    match record.event:
        case RequestSummary() as event:
            yield from (event.answer_schema.label, event.profile)
        case RetrySummary() as event:
            yield from (event.answer_schema.label, event.request.profile)
            yield from (_words(event.failure.kind), f"attempt {event.next_attempt}")
        case AttemptSummary() as event:
            yield from _attempt(event)
        case AnswerSummary() as event:
            yield from (*_label(event.answer_schema), *_model(event.model))
            if event.attempt is not None:
                yield f"attempt {event.attempt}"
        case DeadLetterSummary() as event:
            if event.request:
                yield from (event.request.answer_schema.label, event.request.profile)
            yield _words(event.cause.kind)
        case RunEventSummary() as event:
            yield from _run(event)
        case BudgetNearlySpentSummary() as event:
            yield from (event.budget, event.window)
        case (
            PrivateSummary()
            | ReplayedSummary()
            | DismissedSummary()
            | RetryEnded()
            | UndecodableRecord()
        ):
            pass
        case other:
            assert_never(other)


def _run(event: AnyRunSummary) -> Iterator[str]:
    match event:
        case StepSummary():
            yield from (*((event.agent.name,) if event.agent else ()), f"step {event.n}")
            yield count_text(len(event.calls), "tool call")
        case ControlAppliedSummary():
            yield from (_words(event.control.kind), _words(event.effect))
        case ToolEndedSummary():
            yield from (event.tool, _words(event.outcome.kind))
            if event.took_ms is not None:
                yield duration(event.took_ms)
        case ApprovalRequestedSummary():
            yield event.tool
        case ApprovalSummary() | CancelSummary() | InputRequestedSummary() | InputSummary():
            pass
        case other:
            assert_never(other)


def _attempt(event: AttemptSummary) -> Iterator[str]:
    yield from (*_model(event.model), _words(event.outcome), *_failure(event.failure))
    yield f"attempt {event.attempt}"
    if event.duration_ms is not None:
        yield f"{amount(event.duration_ms) / 1000:.1f} s"


def _label(name: SchemaName | None) -> Iterator[str]:
    if name is not None:
        yield name.label


def _model(model: ModelSummary | None) -> Iterator[str]:
    if model is not None:
        yield from (model.profile, model.model)


def _failure(failure: FailureSummary | None) -> Iterator[str]:
    if failure is not None:
        yield _words(failure.kind)


def _words(name: str) -> str:
    """One of our own names, as people write it."""
    return name.replace("_", " ")
