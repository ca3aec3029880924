"""The closed union of all events, and the wire form of each: id, key, subject, time."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, TypeAdapter

from answerbus import run_event, tool_event
from answerbus.attempt import Attempt
from answerbus.compared import Compared
from answerbus.continued_call import ToolContinue
from answerbus.dead_letter import DeadLetter, Dismissed, Replayed
from answerbus.nearly_spent import BudgetNearlySpent
from answerbus.outcome import AnyResult, Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.ledger import (
    CLOSED_IDS_KEY,
    CLOSED_KEY,
    LANE_KEY,
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LaneRecord,
    LedgerRecord,
    Skipped,
)
from answerbus.reconcile import ToolReconcile, ToolReconciled
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.run_event import RunEvent
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_event import ToolEvent
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.toolset_card import ToolAccepted, ToolsetCard

AnyOutcome = AnyResult | UnvalidatedResult | Refusal | DeadLetter
Event = (
    Request
    | AnyOutcome
    | RetryRequest
    | Replayed
    | Dismissed
    | Attempt
    | Compared
    | LedgerRecord
    | ToolEvent
    | RunEvent
    | BudgetNearlySpent
)

EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


# Each request has three events, and an arm that does not fit takes a tenth of a
# microsecond for each class in it: so the events of plain requests are first.


def event_id(event: Event) -> str:
    """The id that readers dedupe by; derived from the request's, so that repeats carry the same."""
    match event:
        case Result() | Attempt() | UnvalidatedResult() | Refusal() | RetryRequest():
            return event.event_id
        case Compared() | BudgetNearlySpent():
            return event.event_id
        case AccountRecord() | ClosedRecord() | ClosedIdsRecord() | LaneRecord() | Skipped():
            return key(event)
        case BudgetLeaseRecord() | BudgetShareRecord():
            return key(event)
        case Request():
            return event.request_id
        case DeadLetter():
            return event.dead_letter_id
        case Replayed():
            return f"{event.dead_letter_id}.replayed.{event.round}"
        case Dismissed():
            return f"{event.dead_letter_id}.dismissed"
        case other if isinstance(other, ToolEvent):
            return tool_event.event_id(other)
        case _:
            return run_event.event_id(event)


def key(event: Event) -> str:
    """The record key (topics.py says of each topic which it is)."""
    match event:
        case Result() | Attempt() | UnvalidatedResult() | Refusal() | Request() | Compared():
            return event.workflow_id
        case ClosedRecord():
            return f"{CLOSED_KEY}{event.name}"
        case AccountRecord():
            return f"account:{event.account_id}"
        case RetryRequest():
            return RequestKey.of(event).record_key()
        case DeadLetter() | Replayed() | Dismissed():
            return event.dead_letter_id
        case ClosedIdsRecord():
            return f"{CLOSED_IDS_KEY}{event.chunk}"
        case BudgetLeaseRecord() | BudgetShareRecord() | BudgetNearlySpent() | Skipped():
            return event.record_key
        case LaneRecord():
            return LANE_KEY
        case other if isinstance(other, ToolEvent):
            return tool_event.key(other)
        case _:
            return run_event.key(event)


def workflow_of(event: Event) -> str | None:
    """The workflow that an event belongs to, if the event knows it."""
    match event:
        case Result() | Attempt() | ClosedRecord() | UnvalidatedResult() | Refusal() | Request():
            return event.workflow_id
        case RetryRequest() | DeadLetter() | Replayed() | Dismissed() | AccountRecord():
            return event.workflow_id
        case Compared():
            return event.workflow_id
        case ToolCallRecord() | ToolCancel() | ToolResult() | ToolProgress():
            return event.workflow_id
        case ToolReconcile() | ToolReconciled() | ToolContinue():
            return event.workflow_id
        case ClosedIdsRecord() | LaneRecord() | Skipped():
            return None
        case BudgetLeaseRecord() | BudgetShareRecord() | BudgetNearlySpent():
            return None
        case ToolsetCard() | ToolAccepted():
            return None
        case _:
            return run_event.workflow_of(event)


def request_of(event: Event) -> str | None:
    """The request that an event is about, if the event knows it."""
    match event:
        case Result() | Attempt() | UnvalidatedResult() | Refusal() | Request():
            return event.request_id
        case ClosedRecord() | AccountRecord() | ClosedIdsRecord() | LaneRecord() | Skipped():
            return None
        case BudgetLeaseRecord() | BudgetShareRecord() | BudgetNearlySpent():
            return None
        case RetryRequest() | DeadLetter() | Replayed() | ToolCallRecord() | ToolCancel():
            return event.request_id
        case ToolReconcile() | ToolContinue() | Compared():
            return event.request_id
        case ToolReconciled():
            return None
        case Dismissed() | ToolResult() | ToolProgress() | ToolsetCard() | ToolAccepted():
            return None
        case _:
            return run_event.request_of(event)


def happened_at(event: Event) -> datetime | None:
    """When it happened, if the event itself says so."""
    match event:
        case Result() | UnvalidatedResult() | Refusal():
            return event.finished_at
        case Attempt():
            return event.started_at
        case ClosedRecord() | ClosedIdsRecord() | LaneRecord() | Skipped():
            return event.at
        case BudgetLeaseRecord() | BudgetShareRecord() | BudgetNearlySpent():
            return event.at
        case AccountRecord():
            return event.updated_at
        case Request() | ToolResult() | ToolProgress() | ToolReconciled():
            return None
        case RetryRequest() | DeadLetter() | Replayed() | Dismissed() | Compared():
            return event.at
        case ToolCallRecord() | ToolContinue() | ToolCancel() | ToolReconcile():
            return event.at
        case ToolsetCard() | ToolAccepted():
            return event.at
        case _:
            return run_event.happened_at(event)
